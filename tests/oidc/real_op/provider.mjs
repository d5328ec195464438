// The npm package oidc-provider, as it is, on a free port of 127.0.0.1.
//
//   node provider.mjs oidc-provider      the current major
//   node provider.mjs oidc-provider-6    the last major with Session Management 1.0
//
// Prints {"issuer": "..."} when it listens and ends when its standard input closes.
// Paths of its own serve the tests: POST /test/clients registers a client (JSON metadata),
// POST /test/keys replaces every signing key, POST /test/nonces demands a nonce in DPoP proofs.
import { generateKeyPairSync, randomBytes, randomUUID } from 'node:crypto'
import { createServer } from 'node:http'
import { json } from 'node:stream/consumers'

import { MemoryAdapter } from './adapter.mjs'

const packageName = process.argv[2]
const isCurrent = packageName === 'oidc-provider'
const { default: Provider } = await import(packageName)

const people = {
  alice: { name: 'Alice', email: 'alice@example.com', roles: ['admin'] },
  bob: { name: 'Bob', email: 'bob@example.com', roles: ['viewer'] },
}
const signing = ['RS256', 'PS256', 'ES256', 'EdDSA']
const authenticating = [
  'none', 'client_secret_basic', 'client_secret_post', 'client_secret_jwt', 'private_key_jwt',
]

function newKeys() {
  const pairs = [
    ['RS256', generateKeyPairSync('rsa', { modulusLength: 2048 })],
    ['PS256', generateKeyPairSync('rsa', { modulusLength: 2048 })],
    ['ES256', generateKeyPairSync('ec', { namedCurve: 'P-256' })],
    ['EdDSA', generateKeyPairSync('ed25519')],
  ]
  return pairs.map(([alg, pair]) => (
    { ...pair.privateKey.export({ format: 'jwk' }), alg, use: 'sig', kid: randomUUID() }
  ))
}

let demandsNonce = false

const features = {
  devInteractions: { enabled: false },
  revocation: { enabled: true },
  backchannelLogout: { enabled: true },
  jwtUserinfo: { enabled: true },
  ...(isCurrent
    ? {
        pushedAuthorizationRequests: { enabled: true },
        rpInitiatedLogout: { enabled: true },
        introspection: { enabled: true },
        clientCredentials: { enabled: true },
        resourceIndicators: {
          enabled: true,
          defaultResource: () => undefined,
          useGrantedResource: () => true,
          getResourceServerInfo: apiOf,
        },
        dPoP: { enabled: true, nonceSecret: randomBytes(32), requireNonce: () => demandsNonce },
      }
    : { sessionManagement: { enabled: true } }),
}

const algorithms = {
  idTokenSigningAlgValues: signing,
  userinfoSigningAlgValues: signing,
  [isCurrent ? 'clientAuthSigningAlgValues' : 'tokenEndpointAuthSigningAlgValues']:
    [...signing, 'HS256'],
}

const configuration = {
  adapter: MemoryAdapter,
  features,
  claims: { openid: ['sub', 'roles'], profile: ['name'], email: ['email'] },
  // SameSite=None, which a provider on another site needs, would need https.
  cookies: { keys: [randomUUID()], long: { sameSite: 'lax' } },
  findAccount: (_context, sub) => ({ accountId: sub, claims: () => ({ sub, ...people[sub] }) }),
  interactions: { url: (_context, interaction) => `/interaction/${interaction.uid}` },
  issueRefreshToken: () => true,
  rotateRefreshToken: true,
  ttl: { AccessToken: 120, IdToken: 3600, Interaction: 600, Session: 3600, Grant: 3600 },
  ...(isCurrent
    ? {
        acrValues: ['pwd', 'otp', 'hwk'],
        clientAuthMethods: authenticating,
        enabledJWA: algorithms,
        pkce: { required: () => true },
        loadExistingGrant: grantEverything,
        // The guard against requests to this machine would refuse every client under test.
        fetch: (url, { dispatcher, ...options }) => fetch(url, options),
      }
    : {
        tokenEndpointAuthMethods: authenticating,
        whitelistedJWA: algorithms,
        pkceMethods: ['S256'],
      }),
}

/** An API is a URL; the last word of it says how its tokens are written. */
function apiOf(_context, resource) {
  return {
    scope: 'machines:read machines:write',
    audience: resource,
    accessTokenFormat: resource.endsWith('/jwt') ? 'jwt' : 'opaque',
    accessTokenTTL: 120,
  }
}

/** What the user agreed to: everything, the first time a client asks. */
async function grantEverything(context) {
  const { client, session, provider: op } = context.oidc
  const known = session.grantIdFor(client.clientId)
  if (known) return op.Grant.find(known)
  const grant = new op.Grant({ clientId: client.clientId, accountId: session.accountId })
  grant.addOIDCScope('openid profile email offline_access')
  if (context.oidc.params.resource) {
    grant.addResourceScope(context.oidc.params.resource, 'machines:read machines:write')
  }
  await grant.save()
  return grant
}

/** Signs in whom `login_hint` names, as `acr_values` asks, with no page to click on. */
async function interact(request, response) {
  const { prompt, params } = await provider.interactionDetails(request, response)
  const sub = params.login_hint ?? 'alice'
  const acr = params.acr_values?.split(' ')[0]
  const result = prompt.name === 'login'
    ? { login: { account: sub, accountId: sub, ...(acr && { acr }) } }
    : { consent: {} }
  await provider.interactionFinished(request, response, result, { mergeWithLastSubmission: true })
}

async function registerClient(request, response) {
  const metadata = await json(request)
  await new MemoryAdapter('Client').upsert(metadata.client_id, metadata)
  response.writeHead(204).end()
}

function replaceKeys(_request, response) {
  start()
  response.writeHead(204).end()
}

function demandNonces(_request, response) {
  demandsNonce = true
  response.writeHead(204).end()
}

const paths = {
  '/test/clients': registerClient, '/test/keys': replaceKeys, '/test/nonces': demandNonces,
}
const server = createServer((request, response) => {
  const serve = request.url.startsWith('/interaction/') ? interact : paths[request.url]
  if (serve === undefined) return answer(request, response)
  Promise.resolve(serve(request, response)).catch((error) => {
    console.error(error)
    response.writeHead(500).end(String(error))
  })
})

let provider, answer
function start() {
  const issuer = `http://127.0.0.1:${server.address().port}`
  provider = new Provider(issuer, { ...configuration, jwks: { keys: newKeys() } })
  answer = isCurrent ? provider.callback() : provider.callback
  for (const event of ['server_error', 'backchannel.error']) {
    provider.on(event, (_context, error) => console.error(event, error))
  }
  return issuer
}

server.listen(0, '127.0.0.1', () => console.log(JSON.stringify({ issuer: start() })))
process.stdin.resume().on('end', () => process.exit())

// Where the provider keeps what it issues: one map for the life of the process.
const rows = new Map()

/** The storage interface of oidc-provider, for one of its models. */
export class MemoryAdapter {
  /** @param {string} model */
  constructor(model) {
    this.model = model
  }

  /** @param {string} id */
  key(id) {
    return `${this.model}:${id}`
  }

  /** The rows of this model alone. */
  entries() {
    return [...rows].filter(([key]) => key.startsWith(`${this.model}:`))
  }

  /**
   * @param {string} id
   * @param {object} payload
   */
  async upsert(id, payload) {
    rows.set(this.key(id), payload)
  }

  /** @param {string} id */
  async find(id) {
    return rows.get(this.key(id))
  }

  /** @param {string} uid */
  async findByUid(uid) {
    return this.entries().find(([, row]) => row.uid === uid)?.[1]
  }

  /** @param {string} id */
  async consume(id) {
    rows.get(this.key(id)).consumed = Math.floor(Date.now() / 1000)
  }

  /** @param {string} id */
  async destroy(id) {
    rows.delete(this.key(id))
  }

  /** @param {string} grantId */
  async revokeByGrantId(grantId) {
    for (const [key, row] of this.entries()) if (row.grantId === grantId) rows.delete(key)
  }
}

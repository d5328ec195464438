// Node's own client over a unix socket: for each line "METHOD CALLS" on stdin it asks so often over
// a kept connection, and prints the nanoseconds that took on the clock and of the processor.
import http from "node:http";
import readline from "node:readline";

const [socketPath, path, body] = process.argv.slice(2);
const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });

function call(method) {
  return new Promise((resolve, reject) => {
    const headers = method === "PUT" ? { "Content-Type": "application/json" } : {};
    const request = http.request({ socketPath, path, method, headers, agent }, (answer) => {
      const parts = [];
      answer.on("data", (part) => parts.push(part));
      answer.on("end", () => {
        if (answer.statusCode < 300) resolve(Buffer.concat(parts));
        else reject(new Error(`the benchmark was answered ${answer.statusCode}`));
      });
    });
    request.on("error", reject);
    request.end(method === "PUT" ? body : undefined);
  });
}

for await (const line of readline.createInterface({ input: process.stdin })) {
  const [method, calls] = line.split(" ");
  const began = process.hrtime.bigint();
  const used = process.cpuUsage();
  for (let number = 0; number < Number(calls); number++) await call(method);
  const { user, system } = process.cpuUsage(used);
  console.log(`${process.hrtime.bigint() - began} ${(user + system) * 1000}`);
}

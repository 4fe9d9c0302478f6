// Perfetto's trace processor (WebAssembly, as its user interface loads it into a worker) outside a browser:
// requests from a file, replies into another. The messages are those of protos/perfetto/trace_processor.
const fs = require('fs'), path = require('path'), vm = require('vm');
const [folder, requests, replies] = process.argv.slice(2);
const bytes = name => new Uint8Array(fs.readFileSync(path.join(folder, path.basename(name))));
const worker = vm.createContext({
  console, crypto, performance, setTimeout, TextDecoder, TextEncoder, URL,
  location: {href: 'http://localhost/'}, importScripts() {}, WorkerGlobalScope: class {},
  XMLHttpRequest: class {
    open(method, name) { this.name = name; }
    send() { this.response = bytes(this.name).buffer; this.status = 200; }
  },
});
worker.self = worker;
vm.runInContext(Buffer.from(bytes('engine_bundle.js')).toString(), worker);
const chunks = [], port = {postMessage: reply => chunks.push(Buffer.from(reply))};
worker.onmessage({data: port});
worker.sent = fs.readFileSync(requests);
const data = vm.runInContext('new Uint8Array(sent)', worker);
setTimeout(() => { port.onmessage({data}); fs.writeFileSync(replies, Buffer.concat(chunks)); }, 0);

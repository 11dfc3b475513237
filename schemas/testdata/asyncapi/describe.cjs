// Reads AsyncAPI documents with AsyncAPI's own parser and prints, as a JSON
// array, what the parser found wrong with each and what it understood.
const { readFile } = require("node:fs/promises");
const { Parser } = require("@asyncapi/parser");

async function describe(file) {
  const { document, diagnostics } = await new Parser().parse(await readFile(file, "utf8"), { source: file });
  const out = {
    diagnostics: diagnostics.map((d) => ({
      error: d.severity === 0,
      line: d.range.start.line + 1,
      path: d.path.join("/"),
      message: d.message,
    })),
    channels: [],
  };
  for (const channel of document ? document.channels().all() : []) {
    out.channels.push({
      address: channel.address() ?? "",
      operations: channel.operations().all().map((o) => o.action()),
      messages: channel.messages().all().map((m) => ({
        id: m.id(),
        schema: m.payload()?.id() ?? "",
      })),
    });
  }
  return out;
}

Promise.all(process.argv.slice(2).map(describe)).then(
  (all) => console.log(JSON.stringify(all)),
  (err) => {
    console.error(err);
    process.exit(1);
  },
);

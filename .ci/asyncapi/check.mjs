// Parses an AsyncAPI document and prints every diagnostic; errors fail.
import { readFile } from "node:fs/promises";
import { Parser, DiagnosticSeverity } from "@asyncapi/parser";

const file = process.argv[2];
const { document, diagnostics } = await new Parser().parse(
  await readFile(file, "utf8"),
  { source: file },
);
let errors = 0;
for (const d of diagnostics) {
  const error = d.severity === DiagnosticSeverity.Error;
  if (error) errors++;
  if (error || d.severity === DiagnosticSeverity.Warning) {
    const at = `${file}:${d.range.start.line + 1}`;
    console.log(`${at}: ${error ? "error" : "warning"}: ${d.message} (${d.path.join("/")})`);
  }
}
if (!document || errors > 0) process.exit(1);
console.log(
  `${file}: AsyncAPI ${document.version()}, ` +
    `${document.channels().all().length} channels, ` +
    `${document.operations().all().length} operations, ` +
    `${document.messages().all().length} messages`,
);

// Run one program on MicroPython for WebAssembly.
//   node wasm.mjs MODULE FOLDER PROGRAM
// The files of FOLDER appear in the working directory of the board. A program that raises ends with status 1.
import fs from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";

const [module, folder, program] = process.argv.slice(2);
const { loadMicroPython } = await import(pathToFileURL(module).href);
const board = await loadMicroPython({
  heapsize: 4 * 1024 * 1024, // no limit that means anything here: what is not used is not missed
  linebuffer: false,
  stdout: (bytes) => process.stdout.write(bytes),
});
for (const name of fs.readdirSync(folder)) {
  board.FS.writeFile(name, fs.readFileSync(path.join(folder, name)));
}
try {
  board.runPython(fs.readFileSync(program, "utf8"));
} catch (error) {
  console.error(error.message);
  process.exitCode = 1;
}

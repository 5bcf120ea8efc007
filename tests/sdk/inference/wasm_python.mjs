// Runs a program by the Python that Pyodide is built of: node wasm_python.mjs PYODIDE PROGRAM NAME=DIRECTORY ...
// Each directory is a package of that name; the program is named by its path from there.
const [pyodide, program, ...packages] = process.argv.slice(2);
const { loadPyodide } = await import(`${pyodide}/pyodide.mjs`);
try {
  const python = await loadPyodide();
  for (const each of packages) {
    const [name, root] = each.split("=");
    python.FS.mkdirTree(`/site/${name}`);
    python.FS.mount(python.FS.filesystems.NODEFS, { root }, `/site/${name}`);
  }
  python.globals.set("program", `/site/${program}`);
  const printed = python.runPython(`
import contextlib, io, runpy, sys
sys.path.insert(0, "/site")
sys.dont_write_bytecode = True
with contextlib.redirect_stdout(io.StringIO()) as printed:
    runpy.run_path(program, run_name="__main__")
printed.getvalue()
`);
  process.stdout.write(printed);
} catch (error) {
  // An uncaught error would print the line of a megabyte that raised it.
  console.error(error.message);
  process.exit(1);
}

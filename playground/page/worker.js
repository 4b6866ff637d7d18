"use strict"
// The page sends the compiled engine first; the engine then answers its messages itself.
importScripts("wasm_exec.js")
onmessage = async m => {
	const go = new Go()
	go.run(await WebAssembly.instantiate(m.data, go.importObject))
}

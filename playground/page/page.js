"use strict"
const $ = id => document.getElementById(id)

// What this browser lacks, in a line.
const lacks = location.protocol === "file:" ? "a page from a server, for its worker: gpipebench playground is one, and so is any server of files"
	: typeof WebAssembly !== "object" ? "WebAssembly" : typeof Worker !== "function" ? "workers" : ""
function complain(text) {
	$("lacks").hidden = false
	$("lacks").textContent = text
}
if (lacks) complain("Training needs " + lacks + ". The schedules below work without.")

// The engine: compiled once, running in workers.
const compiled = lacks ? new Promise(() => {}) : fetch("engine.wasm").then(r => {
	if (!r.ok) throw new Error("engine.wasm: " + r.status)
	return r.arrayBuffer()
}).then(bytes => WebAssembly.compile(bytes))
compiled.catch(e => complain("The engine cannot be loaded: " + e.message))
class Engine {
	// call resolves when the engine is done, and rejects with its error; hear gets the messages on the way.
	call(call, of, hear) {
		if (!this.worker) this.start()
		const id = this.next++
		return new Promise((resolve, reject) => {
			this.waiting.set(id, {resolve, reject, hear})
			this.ready.then(() => this.worker && this.worker.postMessage({id, call, of}))
		})
	}
	start() {
		const worker = this.worker = new Worker("worker.js")
		this.next = 0
		this.waiting = new Map()
		this.ready = new Promise(resolve => {
			worker.onerror = e => complain("The engine failed: " + e.message)
			worker.onmessage = ({data: {id, kind, of}}) => {
				const w = this.waiting.get(id)
				if (kind === "ready") resolve()
				else if (kind === "done" || kind === "failed") {
					this.waiting.delete(id)
					kind === "done" ? w.resolve() : w.reject(new Error(of))
				} else w.hear(kind, of)
			}
		})
		compiled.then(module => worker.postMessage(module))
	}
	stop() {
		if (this.worker) this.worker.terminate()
		this.worker = null
		for (const {reject} of this.waiting ? this.waiting.values() : []) reject(new Error("stopped"))
	}
}
// after calls f once, some milliseconds after its last call.
const after = (ms, f) => {
	let timer
	return () => { clearTimeout(timer); timer = setTimeout(f, ms) }
}
const percent = share => (100 * share).toFixed(1) + "%"
const bytes = n => n >= 2 ** 30 ? (n / 2 ** 30).toFixed(2) + " GiB" : n >= 2 ** 20 ? (n / 2 ** 20).toFixed(2) + " MiB" : n >= 2 ** 10 ? (n / 2 ** 10).toFixed(1) + " KiB" : n + " B"
const seconds = s => s >= 1 ? s.toPrecision(3) + " s" : s >= 1e-3 ? (1e3 * s).toPrecision(3) + " ms" : (1e6 * s).toPrecision(3) + " µs"
const large = n => n >= 1e9 ? (n / 1e9).toPrecision(3) + " billion" : n >= 1e6 ? (n / 1e6).toPrecision(3) + " million" : n.toLocaleString("en")
// table fills a table; texts are the columns that are words.
function table(into, head, rows, texts = [0]) {
	const row = (tag, cells) => element("tr", {}, ...cells.map((c, i) => element(tag, {className: texts.includes(i) ? "text" : ""}, c instanceof Node ? c : String(c))))
	into.replaceChildren(row("th", head), ...rows.map(r => row("td", r)))
}
const kinds = {F: "F, forward", R: "R, recomputation", B: "B, backward", W: "W, weights' gradients", update: "update"}
// even is a step of stages that are alike, on the page's own clock.
function even(schedule, k, m, recompute) {
	const s = generate(schedule, k, m, 2), v = s.chunks
	const times = runTimes(s.lists, s.place, k, {f: 1 / v, b: (1 + recompute) / v, w: 1 / v, comm: 0})
	return {lists: s.lists, tasks: timed(s.lists, times), span: makespan(times), work: m * (3 + recompute)}
}
const redraws = []
const redrawn = f => { redraws.push(f); f() }
const redraw = () => redraws.forEach(f => f())
addEventListener("resize", redraw)
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw)

// Train. The address has the settings: #net=lm&k=2&m=4&run=1.
const state = {net: "digits", k: 4, m: 4, schedule: "gpipe", checkpoint: "always", cut: "", seed: 1}
const address = new URLSearchParams(location.hash.slice(1))
for (const name of Object.keys(state)) if (address.has(name)) state[name] = typeof state[name] === "number" ? Math.floor(Number(address.get(name))) || state[name] : address.get(name)
for (const name of ["k", "m"]) state[name] = Math.max(1, Math.min(state[name], 32))
addEventListener("hashchange", () => location.reload())
const link = () => location.href.split("#")[0] + "#" + new URLSearchParams(Object.entries(state).filter(([, v]) => v !== "")) + "&run=1"
const settings = () => ({...state, cut: state.cut.trim() === "" ? [] : state.cut.split(",").map(Number)})
const trainer = new Engine(), runs = []
let planned = null, shown = null, losses = [], trace = "", running = false
const replan = after(150, plan)
function change(name, value) {
	state[name] = value
	history.replaceState(null, "", link().replace("&run=1", ""))
	shown = planned = null
	command("")
	drawStep()
	replan()
}
function command(text) {
	$("command").textContent = text
	$("copy-command").disabled = text === ""
}
const form = $("settings")
choice(form, {id: "net", text: "network", of: ["digits", "lm"], value: state.net, set: v => change("net", v)})
slider(form, {id: "k", text: "devices K", least: 1, most: 8, step: 1, value: state.k, set: v => change("k", v)})
slider(form, {id: "m", text: "micro-batches M", least: 1, most: 16, step: 1, value: state.m, set: v => change("m", v)})
choice(form, {id: "schedule", text: "schedule", of: Object.keys(schedules), value: state.schedule, set: v => change("schedule", v)})
choice(form, {id: "checkpoint", text: "checkpoint", of: ["always", "except-last", "never"], value: state.checkpoint, set: v => change("checkpoint", v)})
function field(id, text, of, set) {
	const input = element("input", {id, ...of})
	input.oninput = () => set(input)
	input.onchange = () => { input.value = state[id] }
	form.append(element("label", {className: "wide"}, text, input))
}
field("cut", "cut", {type: "text", value: state.cut, placeholder: "by FLOPs; or layers: 3,3,3,2", spellcheck: false}, e => change("cut", e.value))
field("seed", "seed", {type: "number", min: 1, step: 1, value: state.seed}, e => e.validity.valid && e.value !== "" && change("seed", Number(e.value)))
form.onsubmit = () => false
legend($("step-legend"), kinds)

function drawStep() {
	const t = shown && shown.timed
	if (t) {
		$("step-title").textContent = "The emulated step"
		drawTimeline($("step"), t.tasks, t.span, seconds(t.span))
		$("step").setAttribute("aria-label", `timeline of a step of ${seconds(t.span)} on ${t.tasks.length} devices; idle: ` + t.idle.map((x, d) => `device ${d} ${percent(x)}`).join(", "))
		$("clock").textContent = `Each device runs alone, so that K of them fit in this page, and a virtual clock puts their tasks side by side. Each task has the mean of its ${t.repetitions} times so far: this browser's clock moves in ticks of ${seconds(t.tick)}` +
			(crossOriginIsolated ? "." : ", as the page came without the headers (COOP, COEP) for which browsers make it finer.") + ` Bubble ${percent(t.bubble)} of the step, imbalance ${percent(t.imbalance)}.`
		return
	}
	$("step-title").textContent = "A step, if all stages were alike"
	$("clock").textContent = state.checkpoint === "never" ? "" : "Here each B is drawn with the recomputation before it."
	const least = schedules[state.schedule] && schedules[state.schedule].least
	if (!schedules[state.schedule] || least && state.m < least(state.k)) {
		canvas($("step"), 20)
		$("step").setAttribute("aria-label", "timeline of a step: none for these settings")
		return
	}
	const e = even(state.schedule, state.k, state.m, state.checkpoint === "never" ? 0 : 1)
	drawTimeline($("step"), e.tasks, e.span, e.span.toPrecision(3) + " F")
	$("step").setAttribute("aria-label", `timeline of a step of ${state.k} devices that are alike: ${percent(1 - e.work / e.span)} idle`)
}
function drawLoss() {
	const steps = planned ? planned.steps : 75
	drawLines($("loss"), 170, [losses.length ? losses : [[0, 2.5]]], steps, steps + " steps", 0)
	$("loss").setAttribute("aria-label", "training loss by step: " + (losses.length ? `${losses[0][1].toFixed(3)} at first, ${losses.at(-1)[1].toFixed(3)} after ${losses.length}` : "nothing yet"))
}
function drawMemoryTable() {
	if (!planned) return
	const used = planned.devices.some(d => d.high)
	table($("memory"), ["device", "layers", "planned", "used", ...planned.parts], planned.devices.map((d, i) => [
		i, pieces(i), d.peak.toLocaleString("en") + " B", used ? d.high.toLocaleString("en") + " B" : "-", ...d.planned.map(bytes)]), [1])
}
// pieces names the layers of a device.
function pieces(device) {
	const place = generate(state.schedule, state.k, Math.max(state.m, 2 * state.k), planned.sizes.length / state.k).place
	const names = []
	let at = 0
	planned.sizes.forEach((n, i) => {
		if (place[i] === device) names.push(n > 1 ? `${planned.layers[at]} to ${planned.layers[at + n - 1]}` : planned.layers[at])
		at += n
	})
	return names.join("; ")
}
function show(p) {
	planned = p
	command(p.command)
	$("says").textContent = `${p.params.toLocaleString("en")} parameters, ${p.steps} steps of ${(p.gflop / p.steps).toFixed(3)} GFLOP, cut into ${p.sizes.join(" + ")} layers. The theory's bubble is ${percent(p.formula.bubble)}.`
	drawMemoryTable()
}
async function plan() {
	if (running) return
	const of = link(), outdated = () => of !== link() // then another plan comes
	try {
		await trainer.call("plan", settings(), (_, p) => outdated() || show(p))
		if (!running && !outdated()) $("run").disabled = false
	} catch (e) {
		if (e.message === "stopped" || outdated()) return
		$("says").textContent = "Not possible: " + e.message
		$("run").disabled = true
		$("memory").textContent = ""
		command("")
	}
}
function judge(t) {
	const before = runs.filter(r => r.function === t.function), same = [], differs = []
	if (t.published) (t.published === t.sha256 ? same : differs).push(t.readme ? "README's" : "the native program's")
	if (before.length) (before.every(r => r.sha256 === t.sha256) ? same : differs).push("before")
	const as = of => of.map(x => x === "before" ? "as before" : "the same as " + x).join(", and ")
	let text = differs.length ? `Not ${as(differs)}: this must not happen, please report it.` : same.length ? as(same) + "." : "A new function, so there is nothing to compare with yet: change anything but the seed" + (t.batch_norm ? " and M" : "") + " and train again."
	if (t.batch_norm && !t.readme) text += " With batch norm another M is another function: each micro-batch is normalised by statistics of its own."
	$("verdict").className = differs.length ? "differs" : same.length ? "same" : ""
	$("verdict").textContent = text[0].toUpperCase() + text.slice(1) + ` Held-out accuracy ${percent(t.accuracy)}, loss ${t.loss.toFixed(4)}; ${t.seconds.toFixed(1)} s.`
	return differs.length ? "differs" : same.length ? as(same) : "first of its kind"
}
async function train() {
	if (running) return
	running = true
	$("run").disabled = true
	$("stop").disabled = false
	$("save-trace").disabled = true
	for (const e of form.elements) e.disabled = true
	losses = []
	trace = ""
	$("progress").value = 0
	$("sha256").textContent = "training"
	$("verdict").textContent = ""
	$("verdict").className = ""
	const of = settings()
	try {
		await trainer.call("train", of, (kind, m) => {
			if (kind === "planned") show(m)
			if (kind === "step") {
				losses.push([m.step, m.loss])
				$("progress").value = m.step / planned.steps
				drawLoss()
				if (m.timed) { shown = m; drawStep() }
			}
			if (kind !== "trained") return
			shown = m
			trace = m.trace
			show(m.planned)
			drawStep()
			$("sha256").textContent = m.sha256
			const says = judge(m)
			runs.push({function: m.function, sha256: m.sha256, of, says})
			table($("runs"), ["network", "K", "M", "schedule", "checkpoint", "cut", "seed", "SHA-256", "verdict"], runs.map(r => [r.of.net, r.of.k, r.of.m, r.of.schedule, r.of.checkpoint, r.of.cut.join(",") || "FLOPs", r.of.seed, element("code", {}, r.sha256.slice(0, 16) + "…"), r.says]), [0, 3, 4, 5, 7, 8])
		})
		$("save-trace").disabled = false
	} catch (e) {
		$("sha256").textContent = "not trained yet"
		$("says").textContent = e.message === "stopped" ? "Stopped." : "Not possible: " + e.message
	}
	running = false
	for (const e of form.elements) e.disabled = false
	$("run").disabled = false
	$("stop").disabled = true
}
$("run").onclick = train
$("stop").onclick = () => trainer.stop()
const copy = text => navigator.clipboard ? navigator.clipboard.writeText(text).then(() => "Copied.", () => "Copy it by hand: " + text) : Promise.resolve("Copy it by hand: " + text)
$("copy-command").onclick = () => copy($("command").textContent).then(says => $("copied").textContent = says)
$("copy-link").onclick = () => copy(link()).then(says => $("copied").textContent = says)
$("save-trace").onclick = () => {
	const a = element("a", {href: URL.createObjectURL(new Blob([trace], {type: "application/json"})), download: "trace.json"})
	a.click()
	setTimeout(() => URL.revokeObjectURL(a.href), 1e4)
	$("copied").textContent = "Open trace.json in ui.perfetto.dev."
}
for (const a of document.querySelectorAll("nav a")) a.onclick = e => { // the address is the settings'
	e.preventDefault()
	$(a.dataset.to).scrollIntoView()
}
redrawn(drawStep)
redrawn(drawLoss)

// Figure 2, with the language model measured beside.
const figure = {k: 4, m: 4}, looker = new Engine()
let measured = {}
function drawFigure() {
	const {k, m} = figure, p = even("gpipe", k, m, 0), n = even("naive", k, 1, 0)
	n.tasks.forEach(tasks => tasks.forEach(t => { t.start *= m; t.end *= m }))
	drawTimeline($("naive"), n.tasks, n.span * m, (n.span * m).toPrecision(3) + " F")
	drawTimeline($("pipelined"), p.tasks, n.span * m, (n.span * m).toPrecision(3) + " F")
	const g = measured.gpipe, naive = measured.naive, wait = measured.failed ? "-" : "measuring"
	const kept = t => Math.max(...t.planned.devices.map(d => d.used[3] + d.used[4]))
	table($("formulas"), ["", "formula", "stages alike, this page's clock", "a language model, measured here (GPipe recomputes, naive does not)"], [
		["bubble, naive: (K-1)/K", percent((k - 1) / k), percent(1 - n.work / n.span), naive ? percent(naive.timed.bubble) : wait],
		["bubble, GPipe: (K-1)/(M+K-1)", percent((k - 1) / (m + k - 1)), percent(1 - p.work / p.span), g ? percent(g.timed.bubble) + ", and imbalance " + percent(g.timed.imbalance) : wait],
		["activations, GPipe: O(N + L/K × N/M)", g ? bytes(g.planned.formula.activations) : wait, "", g ? bytes(kept(g)) : wait],
		["activations, naive: O(N × L/K)", naive ? bytes(naive.planned.formula.activations) : wait, "", naive ? bytes(kept(naive)) : wait],
	])
}
const measure = after(400, async () => {
	looker.stop()
	measured = {}
	drawFigure()
	$("figure2-says").textContent = "Measuring a language model of 6 layers and its softmax and embedding."
	try {
		for (const [schedule, m, checkpoint] of [["gpipe", figure.m, "always"], ["naive", 1, "never"]]) {
			await looker.call("train", {net: "lm", k: figure.k, m, schedule, checkpoint, cut: [], seed: 1, steps: 5}, (kind, t) => { if (kind === "trained") measured[schedule] = t })
			drawFigure()
		}
		$("figure2-says").textContent = `Measured: a language model of width 32 on emulated devices, each task the mean of ${measured.gpipe.timed.repetitions} steps. Activations: bytes of the fullest device; the formula has the N inputs of its stage and what L/K layers keep of N/M examples.`
	} catch (e) {
		if (e.message === "stopped") return
		measured.failed = true
		$("figure2-says").textContent = "Not possible: " + e.message
		drawFigure()
	}
})
const moveFigure = (name, v) => { figure[name] = v; measured = {}; drawFigure(); measure() }
slider($("figure2-settings"), {id: "figure2-k", text: "devices K", least: 1, most: 8, step: 1, value: figure.k, set: v => moveFigure("k", v)})
slider($("figure2-settings"), {id: "figure2-m", text: "micro-batches M", least: 1, most: 16, step: 1, value: figure.m, set: v => moveFigure("m", v)})
$("figure2-settings").onsubmit = () => false
legend($("figure2-legend"), {F: kinds.F, B: kinds.B})
redrawn(drawFigure)

// Table 1, as the slider of memory has it.
const searcher = new Engine()
let memoryOf = 16
const search = after(400, async () => {
	if (searcher.busy) {
		searcher.again = true
		return
	}
	searcher.busy = true
	const found = [], gib = memoryOf
	$("table1-says").textContent = `Searching for ${gib} GiB.`
	try {
		await searcher.call("search", gib * 2 ** 30, (_, l) => {
			found.push(l)
			table($("largest"), ["way", "layers", "parameters", "of Pipeline-1", "fullest device", "the paper's layers, of 16 GB"], found.map(f => [f.name, f.layers || "none", f.layers ? large(f.params) : "-", f.layers && found[1] && found[1].params ? (f.params / found[1].params).toPrecision(3) : "-", f.layers ? bytes(f.peak) : "-", f.paper]))
		})
		$("table1-says").textContent = `The largest for devices of ${gib} GiB: activations in bfloat16, 12 bytes a parameter, micro-batches of one example, as table1 in the repository counts by default.`
	} catch (e) {
		$("table1-says").textContent = "Not possible: " + e.message
	}
	searcher.busy = false
	if (searcher.again) { searcher.again = false; search() }
})
slider($("table1-settings"), {id: "memory-of", text: "memory, GiB", least: 4, most: 80, step: 1, value: memoryOf, set: v => { memoryOf = v; search() }})
$("table1-settings").onsubmit = () => false

explorer($("explorer"), {schedule: "zb-h1", k: 4, m: 8, v: 2, f: 1, b: 1, w: 1, u: 0, comm: 0, whole: 1, weights: 0.5, limit: 0}, "explorer-", "h3")
performance.mark("first picture")
// What takes the engine comes after the pictures, and the two sections below when they are first seen.
plan().then(() => { if (address.get("run") === "1" && planned) train() })
const seen = new IntersectionObserver(entries => entries.filter(e => e.isIntersecting).forEach(e => {
	seen.unobserve(e.target)
	e.target.id === "figure2" ? measure() : search()
}))
seen.observe($("figure2"))
seen.observe($("table1"))

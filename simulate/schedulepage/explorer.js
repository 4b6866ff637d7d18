"use strict"
// explorer fills root with sliders for a schedule's sizes, times and memory, its timeline and
// its memory over time. Ids of its elements begin with prefix; heading is the tag of its titles.
function explorer(root, given, prefix, heading) {
	const state = {schedule: given.schedule, k: given.k, m: given.m, v: given.v, f: given.f, b: given.b, w: given.w, comm: given.comm, weights: given.weights, limit: given.limit}
	const knobs = [
		["k", "devices K", 1, 16, 1], ["m", "micro-batches M", 1, 64, 1], ["v", "chunks V", 1, 4, 1],
		["f", "F, ms", 0, 40, 0.1], ["b", "B, ms", 0, 40, 0.1], ["w", "W, ms", 0, 40, 0.1], ["comm", "hop, ms", 0, 10, 0.05],
		["weights", "W's part of activations", 0, 1, 0.01], ["limit", "memory limit", 0, 64, 0.5],
	]
	const names = {F: "F, forward", I: "B, inputs' gradients (with W: B whole)", W: "W, weights' gradients"}
	if (given.lists && given.lists[0].some(t => t.kind === "U")) names.U = "U, a stage's own update"
	const inputs = {}, parts = {}
	const part = (tag, name, of) => parts[name] = element(tag, {id: prefix + name, ...of})
	const picture = (name, says) => {
		const c = part("canvas", name)
		c.setAttribute("role", "img")
		c.setAttribute("aria-label", says)
		return c
	}
	const form = part("form", "controls", {onsubmit: () => false})
	const table = element("div", {className: "scroll", tabIndex: 0}, part("table", "devices"))
	table.setAttribute("aria-label", "devices")
	table.setAttribute("role", "region")
	const says = part("p", "says")
	says.setAttribute("aria-live", "polite")
	root.append(form, says, element(heading, {}, "Timeline"), picture("timeline", "tasks of each device over time"), part("p", "legend", {className: "legend"}),
		element(heading, {}, "Memory over time"), picture("memory", "memory of each device over time"), element(heading, {}, "Devices"), table)
	choice(form, {id: prefix + "schedule", text: "schedule", of: (given.lists ? [given.schedule] : []).concat(Object.keys(schedules)), value: state.schedule, set: name => { state.schedule = name; draw() }})
	for (const [id, text, least, most, step] of knobs)
		inputs[id] = slider(form, {id: prefix + id, text, least, most, step, value: state[id], set: x => { state[id] = x; draw() }})
	legend(parts.legend, names)
	const ms = span => span.toPrecision(4) + " ms"
	let last = ["", null]
	function listed() {
		if (given.lists && state.schedule === given.schedule) return {lists: given.lists, place: given.place, chunks: Math.max(...chunksOf(given.place, given.place.reduce((a, b) => Math.max(a, b)) + 1).map(c => c.length))}
		const key = [state.schedule, state.k, state.m, state.v].join()
		if (last[0] !== key) last = [key, generate(state.schedule, state.k, state.m, state.v)]
		return last[1]
	}
	function draw() {
		const own = given.lists && state.schedule === given.schedule
		for (const id of ["k", "m", "v"]) for (const e of inputs[id]) e.disabled = own || id === "v" && (schedules[state.schedule] || {}).chunks !== 0
		const k = own ? given.k : state.k, m = own ? given.m : state.m
		const fewest = !own && schedules[state.schedule].least ? schedules[state.schedule].least(k) : 1
		if (m < fewest) {
			parts.says.textContent = `${state.schedule} needs ${fewest} micro-batches or more on ${k} devices.`
			parts.devices.textContent = ""
			canvas(parts.timeline, 20)
			canvas(parts.memory, 20)
			return
		}
		const s = listed(), v = s.chunks
		const times = runTimes(s.lists, s.place, k, {f: state.f / v, b: state.b / v, w: state.w / v, u: given.u, comm: state.comm})
		const updates = s.lists[0].filter(t => t.kind === "U").length
		const span = Math.max(makespan(times), 1e-9), work = m * (state.f + state.b + state.w) + updates * given.u, of = longest(times)
		const levels = s.lists.map(list => memory(list, given.whole / v, state.weights * given.whole / v))
		const most = Math.max(...levels.map(peak)), over = m => state.limit > 0 && m > state.limit * (1 + 1e-9)
		parts.says.replaceChildren(`Step ${span.toPrecision(5)} ms, longest span of a device ${of.toPrecision(5)} ms, of which `,
			element("b", {}, `${(of > 0 ? 100 * (of - work) / of : 0).toFixed(2)}%`), ` is idle. Peak memory ${Number(most.toPrecision(4))}`,
			...state.limit === 0 ? ["."] : over(most) ? [", ", element("span", {className: "over"}, `above the limit of ${state.limit}`), "."] : [`, within the limit of ${state.limit}.`])
		drawTimeline(parts.timeline, timed(s.lists, times), span, ms(span))
		drawLines(parts.memory, 190, levels.map((l, d) => {
			const line = [[0, 0]]
			l.forEach(([during, after], i) => line.push([times.start[d][i], line.at(-1)[1]], [times.start[d][i], during], [times.end[d][i], during], [times.end[d][i], after]))
			return [...line, [span, line.at(-1)[1]]]
		}), span, ms(span), state.limit)
		const row = (tag, cells) => element("tr", {}, ...cells.map(c => element(tag, {className: tag === "td" && c.over ? "over" : ""}, String(c.text ?? c))))
		parts.devices.replaceChildren(row("th", ["device", "start, ms", "end, ms", "idle, ms", "peak memory"]), ...levels.map((l, d) =>
			row("td", [d, times.start[d][0].toPrecision(4), times.end[d].at(-1).toPrecision(5), (span - work).toPrecision(4), {text: Number(peak(l).toPrecision(4)), over: over(peak(l))}])))
	}
	draw()
	addEventListener("resize", draw)
	matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw)
	return {state, knobs, inputs, draw}
}

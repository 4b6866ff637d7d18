"use strict"
// Schedules as package schedule generates and runs them (a test compares every list). A task
// is {kind, micro, chunk}; kinds are F, B, I, W and U. A place is the device of each stage.
const loop = (devices, chunks) => Array.from({length: devices * chunks}, (_, s) => s % devices)
const vee = devices => Array.from({length: 2 * devices}, (_, s) => s < devices ? s : 2 * devices - 1 - s)
const task = (kind, micro, chunk = 0) => ({kind, micro, chunk})
const chunksOf = (place, devices) => {
	const of = Array.from({length: devices}, () => [])
	place.forEach((d, s) => of[d].push(s))
	return of
}

function ahead(devices, micro, warm) {
	return Array.from({length: devices}, (_, d) => {
		const n = warm(d), list = []
		for (let m = 0; m < n; m++) list.push(task("F", m))
		for (let m = n; m < micro; m++) list.push(task("F", m), task("B", m - n))
		for (let m = micro - n; m < micro; m++) list.push(task("B", m))
		return list
	})
}

function interleaved(devices, micro, chunks) {
	const rounds = Math.max(1, Math.floor(micro / devices))
	return Array.from({length: devices}, (_, d) => {
		const forward = [], backward = []
		let from = 0
		for (let r = 0; r < rounds; r++) {
			const to = Math.floor((micro * (r + 1) + rounds - 1) / rounds)
			for (let c = 0; c < chunks; c++) for (let m = from; m < to; m++) {
				forward.push(task("F", m, c))
				backward.push(task("B", m, chunks - 1 - c))
			}
			from = to
		}
		let n = Math.min(forward.length, (chunks - 1) * Math.floor((micro + rounds - 1) / rounds) + 2 * (devices - 1 - d))
		if (chunks === 1) n = Math.min(forward.length, devices - 1 - d)
		const list = forward.slice(0, n)
		forward.slice(n).forEach((t, i) => list.push(t, backward[i]))
		return list.concat(backward.slice(forward.length - n))
	})
}

function zeroBubble(devices, micro, by) {
	const last = by * (devices - 1)
	return Array.from({length: devices}, (_, d) => {
		const list = []
		const add = (kind, m) => { if (m >= 0 && m < micro) list.push(task(kind, m)) }
		for (let x = 0; x < micro + last; x++) {
			add("F", x)
			add("I", x - by * (devices - 1 - d))
			add("W", x - last)
		}
		return list
	})
}

function dualPipeV(devices, micro) {
	return Array.from({length: devices}, (_, d) => {
		const list = [], forwards = [0, 0], backwards = [0, 0]
		let weights = []
		const forward = c => list.push(task("F", forwards[c]++, c))
		const backward = (c, split) => {
			if (split) weights.push(task("W", backwards[c], c))
			list.push(task(split ? "I" : "B", backwards[c]++, c))
		}
		const weight = () => list.push(weights.shift())
		const after = devices - 1 - d
		for (let i = 0; i < 2 * after; i++) forward(0)
		for (let i = 0; i <= d; i++) { forward(0); forward(1) }
		for (let i = 0; i < after; i++) { backward(1, true); weight(); forward(1) }
		for (let i = 0; i < micro - 2 * devices + d + 1; i++) { forward(0); backward(1, false); forward(1); backward(0, false) }
		for (let i = 0; i < after; i++) { backward(1, false); forward(1); backward(0, false) }
		for (let i = 0; i < 2 * (d + 1); i++) backward((i + 1) % 2, i > d)
		for (let i = 0; i < after; i++) { weight(); backward(0, true) }
		while (weights.length) weight()
		return list
	})
}

// V-shaped schedules: of building blocks that repeat every six units, the best that fits.
const interval = 6
const passes = [["F", 0], ["F", 1], ["I", 1], ["I", 0]]
function newBlock(devices, steps, turns) {
	const b = []
	let at = 0
	for (let pass = 0; pass < 4; pass++) {
		b.push(new Array(devices))
		for (let i = 0; i < devices; i++) {
			const d = pass % 2 ? devices - 1 - i : i
			if (i > 0) at += steps[2 * pass + d % 2]
			b[pass][d] = at
		}
		if (pass < 3) at += 1 + turns[pass]
	}
	return b
}
function blockFits(b, devices) {
	for (let d = 0; d < devices; d++) {
		let taken = 0
		for (let pass = 0; pass < 4; pass++) {
			const bit = 1 << b[pass][d] % interval
			if (taken & bit) return false
			taken |= bit
		}
	}
	return true
}
function blockLife(b, devices) {
	let longest = 0
	for (let d = 0; d < devices; d++) longest = Math.max(longest, b[3][d] - b[0][d] + b[2][d] - b[1][d] + 2)
	return longest
}
function repeat(b, devices, micro, limit, eager) {
	const chunks = chunksOf(vee(devices), devices), stages = 2 * devices
	const order = Array.from({length: devices}, (_, d) => {
		const due = []
		for (let m = 0; m < micro; m++) for (let pass = 0; pass < 4; pass++)
			due.push({at: b[pass][d] + interval * m, task: task(passes[pass][0], m, passes[pass][1])})
		return due.sort((x, y) => x.at - y.at)
	})
	const table = () => Array.from({length: stages}, () => new Array(micro).fill(0))
	const done = [table(), table()]
	const lists = order.map(() => []), weights = order.map(() => []), held = order.map(() => 0)
	let left = 3 * stages * micro
	for (let now = 0, idle = 0; left > 0 && idle <= devices * interval; now++) {
		idle++
		for (let d = 0; d < devices; d++) {
			const run = t => { lists[d].push(t); left--; idle = 0 }
			const take = (i, most) => {
				const t = order[d][i].task, s = chunks[d][t.chunk]
				const of = t.kind === "I" ? 1 : 0, from = of ? s + 1 : s - 1
				if (t.kind === "F" && held[d] >= most) return false
				if (from >= 0 && from < stages && (done[of][from][t.micro] === 0 || done[of][from][t.micro] > now)) return false
				order[d].splice(i, 1)
				done[of][s][t.micro] = now + 1
				if (t.kind === "F") held[d]++
				else weights[d].push(task("W", t.micro, t.chunk))
				run(t)
				return true
			}
			let ready = order[d].length > 0 && take(0, limit)
			if (!ready && eager && weights[d].length === 0) {
				const i = order[d].findIndex(x => x.task.kind === "F" && x.task.chunk === 0)
				if (i > 0) ready = take(i, limit - 1)
			}
			if (!ready && weights[d].length > 0) {
				run(weights[d].shift())
				held[d]--
			}
		}
	}
	return left > 0 ? null : lists
}
function each(n, most, f) {
	const at = new Array(n).fill(0)
	for (;;) {
		f(at)
		let i = 0
		for (; i < n; i++) {
			if (++at[i] < most) break
			at[i] = 0
		}
		if (i === n) return
	}
}
function vShaped(devices, micro, limit) {
	const alike = {}, few = Math.min(micro, 3 * devices)
	let best = null, least = Infinity
	each(8, 3, step => each(3, 3, turn => {
		const b = newBlock(devices, step.map(n => 1 + n), turn), life = blockLife(b, devices)
		if (life > limit * interval || alike[life] === 16 || !blockFits(b, devices)) return
		alike[life] = (alike[life] || 0) + 1
		for (const eager of [false, true]) {
			const lists = repeat(b, devices, few, limit, eager)
			if (!lists) continue
			const span = longest(runTimes(lists, vee(devices), devices, {f: 1, b: 1, w: 1, comm: 0}))
			if (span < least) {
				best = [b, eager]
				least = span
			}
		}
	}))
	return best && repeat(best[0], devices, micro, limit, best[1])
}

// Schedules by name: how many chunks a device has (0: any number), and the lists.
const schedules = {
	"gpipe": {chunks: 1, lists: (k, m) => ahead(k, m, () => m)},
	"naive": {chunks: 1, lists: (k, m) => ahead(k, m, () => 0)},
	"1f1b": {chunks: 1, lists: (k, m) => ahead(k, m, d => Math.min(m, k - 1 - d))},
	"interleaved": {chunks: 0, lists: interleaved},
	"zb-h1": {chunks: 1, lists: (k, m) => zeroBubble(k, m, 1)},
	"zb-h2": {chunks: 1, lists: (k, m) => zeroBubble(k, m, 2)},
	"zb-v": {chunks: 2, vee: true, lists: (k, m) => vShaped(k, m, 2 * k)},
	"v-half": {chunks: 2, vee: true, lists: (k, m) => vShaped(k, m, Math.min(2 * k, k + 2))},
	"v-min": {chunks: 2, vee: true, lists: (k, m) => vShaped(k, m, Math.min(2 * k, Math.floor((2 * k + 2) / 3) + 2))},
	"dualpipe-v": {chunks: 2, vee: true, least: k => 2 * k, lists: dualPipeV},
}
function generate(name, devices, micro, chunks) {
	const of = schedules[name], v = of.chunks || chunks
	return {lists: of.lists(devices, micro, v), place: of.vee ? vee(devices) : loop(devices, v), chunks: v}
}

// runTimes is when tasks begin and end, each as soon as what it needs has come; null: they
// wait for each other.
function runTimes(lists, place, devices, t) {
	const stages = place.length, chunks = chunksOf(place, devices)
	const duration = {F: t.f, I: t.b, B: t.b + t.w, W: t.w, U: t.u || 0}
	const table = () => Array.from({length: stages}, () => [])
	const forward = table(), backward = table(), start = lists.map(() => []), end = lists.map(() => [])
	const next = d => {
		const at = end[d].length
		if (at === lists[d].length) return false
		const a = lists[d][at], s = chunks[d][a.chunk]
		let begin = at ? end[d][at - 1] : 0, from = -1, of
		if (a.kind === "F") [from, of] = [s - 1, forward]
		else if (a.kind !== "W" && a.kind !== "U" && s < stages - 1) [from, of] = [s + 1, backward]
		if (from >= 0) {
			const ready = of[from][a.micro]
			if (ready === undefined) return false
			begin = Math.max(begin, ready + (place[from] !== d ? t.comm : 0))
		}
		const over = begin + duration[a.kind]
		start[d].push(begin)
		end[d].push(over)
		if (a.kind === "F") forward[s][a.micro] = over
		else if (a.kind !== "W" && a.kind !== "U") backward[s][a.micro] = over
		return true
	}
	for (let moved = true; moved;) {
		moved = false
		for (let d = 0; d < devices; d++) while (next(d)) moved = true
	}
	return lists.every((list, d) => end[d].length === list.length) ? {start, end} : null
}
// timed are the tasks of the lists with their times.
const timed = (lists, times) => lists.map((list, d) => list.map((t, i) => ({...t, start: times.start[d][i], end: times.end[d][i]})))
const longest = times => Math.max(...times.end.map((e, d) => e[e.length - 1] - times.start[d][0]))
const makespan = times => Math.max(...times.end.map(e => e[e.length - 1]))

// memory is what a device holds from each of its tasks' begin to its end, and after it.
function memory(list, whole, weights) {
	let now = 0
	return list.map(t => {
		if (t.kind === "F") now += whole
		const during = now
		if (t.kind === "B") now -= whole
		if (t.kind === "I") now += weights - whole
		if (t.kind === "W") now -= weights
		return [during, now]
	})
}
const peak = levels => Math.max(...levels.map(l => l[0]))

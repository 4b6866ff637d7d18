"use strict"
// Pictures of a step on canvases: tasks of devices over time, and their memory. Colours are
// the style sheet's variables, so light and dark need nothing here but to draw again.
const inks = {F: "#56b4e9", R: "#e8b04a", B: "#2bb58a", I: "#2bb58a", W: "#a3d977", U: "#d98cb3", update: "#d98cb3"}
const left = 30 // pixels of the devices' names
const element = (tag, of, ...within) => {
	const e = Object.assign(document.createElement(tag), of)
	e.append(...within)
	return e
}
const colour = name => getComputedStyle(document.documentElement).getPropertyValue(name)
// canvas sizes c to its width on the page, and returns what draws on it and that width.
function canvas(c, height) {
	const width = c.clientWidth, scale = window.devicePixelRatio || 1
	c.style.height = height + "px"
	c.width = width * scale
	c.height = height * scale
	const g = c.getContext("2d")
	g.scale(scale, scale)
	g.clearRect(0, 0, width, height)
	return [g, width]
}
function axis(g, width, y, span) {
	g.fillStyle = colour("--ink")
	g.font = "11px Helvetica, Arial, sans-serif"
	g.textAlign = "left"
	g.fillText("0", left, y)
	g.textAlign = "right"
	g.fillText(span, width - 1, y)
}
// legend explains kinds of tasks, whose names are given.
function legend(into, names) {
	into.replaceChildren(...Object.entries(names).map(([kind, text]) => {
		const ink = element("i")
		ink.style.background = inks[kind]
		return element("span", {}, ink, text)
	}))
}
// drawTimeline draws the tasks {kind, micro, chunk, start, end} of each device, the first at the
// bottom; says is the span in words.
function drawTimeline(c, devices, span, says) {
	const k = devices.length, lane = Math.max(12, Math.min(26, 420 / k)), [g, width] = canvas(c, k * (lane + 2) + 18), x = t => left + t / span * (width - left - 1)
	devices.forEach((tasks, d) => {
		const y = (k - 1 - d) * (lane + 2)
		g.fillStyle = colour("--lane")
		g.fillRect(left, y, width - left, lane)
		g.fillStyle = colour("--ink")
		g.font = "12px Helvetica, Arial, sans-serif"
		g.textAlign = "right"
		g.textBaseline = "middle"
		g.fillText(d, left - 6, y + lane / 2)
		for (const t of tasks) {
			const a = x(t.start), b = x(t.end)
			if (!inks[t.kind]) continue
			g.globalAlpha = t.chunk ? 0.65 : 1
			g.fillStyle = inks[t.kind]
			g.fillRect(a, y, Math.max(0.4, b - a - 0.5), lane)
			g.globalAlpha = 1
			if (b - a > 15 && t.micro >= 0) {
				g.fillStyle = "#111"
				g.font = "10px Helvetica, Arial, sans-serif"
				g.textAlign = "center"
				g.fillText(t.micro, (a + b) / 2, y + lane / 2)
			}
		}
	})
	g.textBaseline = "alphabetic"
	axis(g, width, k * (lane + 2) + 13, says)
}
// drawLines draws lines [[x, y], ...] over x from 0 to span and y from 0; limit is a dashed line, 0: none.
function drawLines(c, height, lines, span, says, limit) {
	const [g, width] = canvas(c, height + 18), x = t => left + t / span * (width - left - 1)
	const top = Math.max(limit, 1e-9, ...lines.map(l => Math.max(...l.map(p => p[1])))) * 1.08, y = m => height - m / top * (height - 12)
	const ten = Math.pow(10, Math.floor(Math.log10(top))), step = ten * (top / ten > 4 ? 2 : 1) / (top / ten < 2 ? 2 : 1)
	g.font = "11px Helvetica, Arial, sans-serif"
	g.textAlign = "right"
	for (let m = 0; m <= top; m += step) {
		g.strokeStyle = colour("--lane")
		g.beginPath(); g.moveTo(left, y(m)); g.lineTo(width, y(m)); g.stroke()
		g.fillStyle = colour("--ink")
		g.fillText(Number(m.toPrecision(3)), left - 4, y(m) + 4)
	}
	lines.forEach((line, d) => {
		g.strokeStyle = `hsl(${Math.round(300 * d / Math.max(1, lines.length - 1))} 65% 50%)`
		g.lineWidth = 1.5
		g.beginPath()
		line.forEach(([t, m], i) => i ? g.lineTo(x(t), y(m)) : g.moveTo(x(t), y(m)))
		g.stroke()
	})
	if (limit > 0) {
		g.strokeStyle = colour("--over")
		g.setLineDash([6, 4])
		g.beginPath(); g.moveTo(left, y(limit)); g.lineTo(width, y(limit)); g.stroke()
		g.setLineDash([])
	}
	axis(g, width, height + 14, says)
}
// slider adds a labelled range with a field for its number to a form, and returns both; set is called with each
// number within its bounds. When a reader leaves the field it shows the last of these.
function slider(form, {id, text, least, most, step, value, set}) {
	const most_ = Math.max(most, value)
	const range = element("input", {type: "range", min: least, max: most_, step, value, id})
	const number = element("input", {type: "number", min: least, max: most_, step: "any", value})
	number.setAttribute("aria-label", text)
	const take = from => {
		const x = Number(from.value)
		if (from.value === "" || !(x >= least && x <= Number(range.max)) || step === 1 && x !== Math.round(x)) return
		range.value = value = x
		if (from !== number) number.value = x
		set(x)
	}
	range.oninput = () => take(range)
	number.oninput = () => take(number)
	number.onchange = () => { number.value = value }
	form.append(element("label", {}, text, range, number))
	return [range, number]
}
// choice adds a labelled list of words to a form, and returns it.
function choice(form, {id, text, of, value, set}) {
	const list = element("select", {id}, ...of.map(word => new Option(word, word)))
	list.value = value
	list.onchange = () => set(list.value)
	form.append(element("label", {className: "wide"}, text, list))
	return list
}

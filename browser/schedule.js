// moveAll moves every control of the schedules' page, and returns what is wrong: messages for
// pictures that stay as they are or are empty, a page wider than its window, files that are asked for.
const moveAll = () => {
	const wrong = [], $ = id => document.getElementById(id), blank = document.createElement("canvas")
	const painted = id => {
		const c = $(id)
		blank.width = c.width
		blank.height = c.height
		const seen = c.toDataURL()
		return seen === blank.toDataURL() ? "" : seen
	}
	const looks = () => painted("timeline") + "," + painted("memory")
	for (const name of Object.keys(schedules)) {
		$("schedule").value = name
		$("schedule").onchange()
		if (!/is idle/.test($("says").textContent)) wrong.push(name + ": " + $("says").textContent)
		if (!painted("timeline") || !painted("memory")) wrong.push(name + ": nothing is drawn")
	}
	for (const [id] of knobs) {
		$("schedule").value = state.schedule = id === "v" ? "interleaved" : "zb-h1"
		draw()
		const before = looks(), [range] = inputs[id], was = range.value
		range.value = Number(range.value) > Number(range.max) / 2 ? Number(range.max) / 4 : Number(range.max) * .75
		range.oninput()
		if (looks() === before) wrong.push(id + ": the picture stays as it is")
		range.value = was
		range.oninput()
	}
	$("schedule").value = "dualpipe-v"
	$("schedule").onchange()
	const m = state.m
	state.m = 2
	draw()
	if (!/or more/.test($("says").textContent)) wrong.push("too few micro-batches: " + $("says").textContent)
	state.m = m
	draw()
	if (document.scrollingElement.scrollWidth > innerWidth) wrong.push("wider than the window: " + document.scrollingElement.scrollWidth)
	return wrong.concat(performance.getEntriesByType("resource").map(r => r.name))
}

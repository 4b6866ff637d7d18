// What the tests do with the page, in the page.
const test = {
	wait: async (what, done, ms = 600000) => {
		for (const end = Date.now() + ms; !done(); await new Promise(r => setTimeout(r, 30)))
			if (Date.now() > end) throw new Error(what + ": waited in vain; the page says: " + $("says").textContent + " " + $("lacks").textContent)
	},
	set: (id, value) => {
		const e = $(id)
		e.value = value
		if (e.value !== String(value)) throw new Error(id + " does not take " + value)
		e.dispatchEvent(new Event(e.tagName === "SELECT" ? "change" : "input"))
	},
	// finished waits for the training that is under way, and returns its row of the page's.
	finished: async n => {
		await test.wait("training", () => runs.length === n || /Not possible/.test($("says").textContent) && !running)
		if (runs.length !== n || $("sha256").textContent !== runs.at(-1).sha256) throw new Error($("says").textContent)
		await test.wait("the end", () => !running)
		return {...runs.at(-1), verdict: $("verdict").textContent, command: $("command").textContent, trace: trace.length}
	},
	// train sets the controls, as a reader would, and trains.
	train: async of => {
		for (const [id, value] of Object.entries(of)) test.set(id, value)
		const n = runs.length + 1
		await test.wait("planning", () => planned && !$("run").disabled)
		$("run").click()
		return test.finished(n)
	},
	// sight is what a section shows.
	sight: section => [...section.querySelectorAll("canvas")].map(c => c.toDataURL()).join() + [...section.querySelectorAll("table, p")].map(t => t.textContent).join(),
	// sliders moves each, and returns what is wrong: those after which nothing else is shown.
	sliders: async () => {
		const wrong = [], ranges = [...document.querySelectorAll("input[type=range]")]
		for (const range of ranges) {
			const section = range.closest("section"), was = range.value
			if (section.id === "schedules") test.set("explorer-schedule", range.id === "explorer-v" ? "interleaved" : "zb-h1")
			await test.wait(range.id, () => range.id !== "memory-of" || /^The largest/.test($("table1-says").textContent))
			const before = test.sight(section)
			test.set(range.id, Number(was) > (Number(range.min) + Number(range.max)) / 2 ? range.min : range.max)
			const changed = () => test.sight(section) !== before
			try { await test.wait(range.id, changed, 120000) } catch (e) { wrong.push(e.message) }
			test.set(range.id, was)
		}
		await test.wait("figure 2", () => /^Measured/.test($("figure2-says").textContent))
		await test.wait("table 1", () => /^The largest/.test($("table1-says").textContent))
		return {moved: ranges.length, wrong}
	},
	// stop begins a training, and once more, stops it after a step, and returns what the page says then.
	stop: async () => {
		await test.wait("planning", () => planned && !$("run").disabled)
		plan() // which ends after the click
		$("run").click()
		train()
		await test.wait("a step", () => losses.length)
		if (!$("run").disabled || trainer.waiting.size > 1) throw new Error("a second training can begin")
		$("stop").click()
		await test.wait("the end", () => !running)
		return $("says").textContent
	},
	// impossible asks for more pieces than there are layers, and for too few micro-batches, and returns what the page
	// says, with what it still shows of settings before.
	impossible: async () => {
		test.set("schedule", "interleaved")
		test.set("k", 8)
		await test.wait("a refusal", () => $("run").disabled)
		const says = $("says").textContent + $("command").textContent
		test.set("schedule", "dualpipe-v")
		test.set("m", 1)
		return says + ($("copy-command").disabled ? "" : "; a command") + (/none/.test($("step").getAttribute("aria-label")) ? "" : "; a timeline")
	},
	// looks is what is wrong with the page as wide as it is: beyond the window, without a name.
	looks: () => {
		const wrong = []
		if (document.scrollingElement.scrollWidth > innerWidth) wrong.push("wider than the window: " + document.scrollingElement.scrollWidth + " of " + innerWidth)
		for (const e of document.querySelectorAll("input, select, button")) {
			const name = e.getAttribute("aria-label") || e.textContent || (e.labels && e.labels[0] && e.labels[0].textContent)
			if (!name) wrong.push("no name: " + e.outerHTML)
			if (e.tabIndex < 0) wrong.push("not reached by keys: " + e.outerHTML)
		}
		for (const c of document.querySelectorAll("canvas")) if (!c.getAttribute("aria-label")) wrong.push("no name: " + c.id)
		const own = performance.getEntriesByType("resource").map(r => r.name).filter(name => !name.startsWith(location.origin + "/"))
		return wrong.concat(own.map(name => "loaded from elsewhere: " + name))
	},
	// policy is whether the page refuses a script that it was not built with.
	policy: () => new Promise(done => {
		addEventListener("securitypolicyviolation", () => done(true), {once: true})
		const script = document.createElement("script")
		script.textContent = "document.title = 'injected'"
		document.head.append(script)
		setTimeout(() => done(false), 2000)
	}),
}

// What is wrong with a page of results, or with its pictures by themselves, as wide as the
// window is: a list of sentences.
const test = () => {
	// What was closed when the page came is closed again, to see the first screen.
	window.closed_ ??= [...document.querySelectorAll("details")].filter(d => !d.open)
	for (const d of window.closed_) d.open = false
	const picture = document.querySelector(".answer + figure")
	const seen = picture && picture.getBoundingClientRect().bottom + scrollY
	for (const d of window.closed_) d.open = true
	const all = (within, what) => [...within.querySelectorAll(what)]
	const box = e => e.getBoundingClientRect()
	const wide = innerWidth >= 1280
	const figures = all(document, "figure > svg, .panels > svg")
	// A box around slanting letters does not say what they meet, only where they end.
	const straight = t => { const m = t.getScreenCTM(); return Math.min(Math.abs(m.a), Math.abs(m.b)) < .01 }
	const size = t => { const m = t.getScreenCTM(); return parseFloat(getComputedStyle(t).fontSize) * Math.hypot(m.a, m.b) }
	const texts = f => all(f, "text").filter(t => straight(t) && t.textContent.trim())
	const within = (t, f) => t.left > f.left - 3 && t.right < f.right + 3 && t.top > f.top - 3 && t.bottom < f.bottom + 3
	const meet = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 5
	// The first column of measured values of a table.
	const measured = all(document, ".scroll").map(s => [s, s.querySelector("th.measured")]).filter(([s, th]) => th && box(s).width > 0)
	const found = {
		"wider than the window": document.scrollingElement.scrollWidth > innerWidth ? [document.scrollingElement.scrollWidth] : [],
		"files asked for": performance.getEntriesByType("resource").map(r => r.name),
		"pages without a content security policy": document.querySelector("main") && !document.querySelector("meta[http-equiv=Content-Security-Policy]") ? [1] : [],
		"flat plots": figures.filter(f => box(f).height < 50).map(f => f.getAttribute("class")),
		"letters below 9 pixels": figures.flatMap(f => texts(f).filter(t => size(t) < 9)).map(t => t.textContent),
		"letters beyond the edge": figures.flatMap(f => all(f, "text").filter(t => !within(box(t), box(f)))).map(t => t.textContent),
		"letters upon letters": figures.flatMap(f => texts(f).filter((t, i, of) => of.slice(0, i).some(u => meet(box(t), box(u))))).map(t => t.textContent),
		"names upon names": all(document, ".legend").flatMap(l => all(l, "li").filter((e, i, of) => of.slice(0, i).some(u => meet(box(e), box(u))))).map(e => e.textContent),
		"verdicts out of sight": wide ? all(document, "td.verdict").filter(td => box(td).width > 0 && box(td).right > box(td.closest(".scroll")).right + 1).map(td => td.parentElement.id) : [],
		"tables whose measured values are out of sight": wide ? measured.filter(([s, th]) => box(th).right > box(s).right + 1).map(([s, th]) => s.getAttribute("aria-label") + ": " + th.textContent) : [],
	}
	if (document.querySelector("main")) {
		if (document.querySelector(".answer")) found["headlines without their picture on the first screen"] = picture && (innerWidth != 1280 || seen <= 800) ? [] : [seen]
		if (!document.querySelector(".ledger") && !figures.length) found["nothing to see"] = ["no figure"]
	}
	return Object.entries(found).filter(([, of]) => of.length).map(([what, of]) => `${of.length} ${what}: ${of.slice(0, 4).join(" | ")}`)
}

#!/bin/sh
# Opens the pages of a directory of results, with all that is closed in them opened, and every
# picture by itself, in headless Chromium: at the width of a phone, a desk and a large screen,
# in light and dark, with the fonts that are installed and without Liberation, which pictures
# are laid out with. Then
#
#	nothing is wider than the window,
#	nothing is said on the console, and no file but the page is asked for,
#	every plot is legible: not flat, no letters below 9 pixels, beyond its edge or upon others,
#	a desk shows what was measured in every table, and every verdict, without scrolling,
#	and the first screen of a desk has the headline and the picture, if there are any.
#
# The schedule page has a test of its own. It takes a minute. Where there is no browser it
# skips, or fails if CI is set.
#
#	bench/check_report.sh results/local [directory for screenshots]
set -eu
results=$1
pages=$(ls "$results/report" | grep '\.html$' | grep -v '^schedule\.html$')
shots=${2:-}
browser=
for name in chromium chromium-browser google-chrome; do
	if command -v "$name" >/dev/null; then browser=$name; break; fi
done
if [ -z "$browser" ]; then
	if [ -n "${CI:-}" ]; then echo "check-report: failed: want Chromium"; exit 1; fi
	echo "check-report: skipped, because there is no Chromium here"; exit 0
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cat >"$scratch/check.js" <<'SCRIPT'
const picture = document.querySelector(".answer + figure")
const seen = picture && picture.getBoundingClientRect().bottom
for (const d of document.querySelectorAll("details")) d.open = true
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
parent.postMessage(Object.entries(found).filter(([, of]) => of.length).map(([what, of]) => `${of.length} ${what}: ${of.slice(0, 4).join(" | ")}`).join("; ") || "all is well", "*")
SCRIPT
# The pages let no script run, so without their policy.
for page in $pages; do
	grep -q '<meta http-equiv="Content-Security-Policy"' "$results/report/$page" || { echo "check-report: failed: $page: want a content security policy"; exit 1; }
	{ sed '/<meta http-equiv="Content-Security-Policy"/d' "$results/report/$page"; printf '<script>'; cat "$scratch/check.js"; echo '</script>'; } >"$scratch/$page"
done
# Pictures by themselves, as they are in files: as wide as they say.
{
	echo '<!DOCTYPE html><meta charset="utf-8"><meta name="color-scheme" content="light dark"><link rel="icon" href="data:,"><body style="margin:0"><div style="overflow-x:auto">'
	for svg in "$results"/tables/*.svg; do
		[ -f "$svg" ] || continue
		echo '<figure style="margin:0">'
		sed 's/<?xml[^>]*>//' "$svg"
		echo '</figure>'
	done
	printf '</div><script>'
	cat "$scratch/check.js"
	echo '</script>'
} >"$scratch/pictures.html"
cat >"$scratch/fonts.conf" <<'FONTS'
<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
<include ignore_missing="yes">/etc/fonts/fonts.conf</include>
<selectfont><rejectfont><pattern><patelt name="family"><string>Liberation Sans</string></patelt></pattern></rejectfont></selectfont>
</fontconfig>
FONTS
failed=0
# look SCHEME FONTS SCREENSHOT "PAGE WIDTH"... opens pages in frames: a browser's window
# has a least width, a frame has none. All frames of a colour scheme and of a set of fonts
# are in one browser, which takes longer to start than to look.
look() {
	scheme=$1 fonts=$2 shot=$3
	shift 3
	{
		cat <<'FRAME'
<!DOCTYPE html><meta name="color-scheme" content="light dark"><body style="margin:0">
<script>
const seen = {}
onmessage = m => {
	seen[[...document.querySelectorAll("iframe")].find(f => f.contentWindow === m.source).name] = m.data
	const bad = Object.entries(seen).filter(([, says]) => says !== "all is well").map(([where, says]) => where + " wide: " + says)
	document.documentElement.dataset.checked = bad.join("; ") || Object.keys(seen).length + " are in order"
}
</script>
FRAME
		for one; do
			echo "<iframe name='$one' src='${one% *}.html' width='${one#* }' height='3000' style='border:0;display:block'></iframe>"
		done
	} >"$scratch/frame.html"
	if [ "$fonts" != installed ]; then export FONTCONFIG_FILE="$scratch/fonts.conf"; else unset FONTCONFIG_FILE; fi
	got=$(timeout 120 "$browser" --headless --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir="$scratch/profile" \
		--window-size=1920,3000 --blink-settings=preferredColorScheme="$([ "$scheme" = dark ] && echo 0 || echo 1)" \
		--virtual-time-budget=3000 --enable-logging=stderr ${shot:+--screenshot="$shot"} --dump-dom "file://$scratch/frame.html" 2>"$scratch/log" |
		tr '\n' ' ' | sed -n 's/.*data-checked="\([^"]*\)".*/\1/p')
	console=$(grep CONSOLE "$scratch/log" || true)
	if [ "$got" != "$# are in order" ] || [ -n "$console" ]; then
		echo "check-report: $scheme, fonts: $fonts: ${got:-nothing was seen} $console"
		failed=1
	fi
}
for fonts in installed without-liberation; do
	for scheme in dark light; do
		look $scheme $fonts "" "pictures 1280"
		for page in $pages; do
			page=${page%.html}
			look $scheme $fonts "" "$page 400" "$page 1280" "$page 1920"
			[ -z "$shots" ] || for width in 400 1280 1920; do
				look $scheme $fonts "$shots/$page-$width-$scheme-$fonts.png" "$page $width"
			done
		done
	done
done
[ $failed = 1 ] || echo "check-report: the pages of $results/report and the pictures in $results/tables are in order at 400, 1280 and 1920 pixels, in light and dark, with and without Liberation Sans"
exit $failed

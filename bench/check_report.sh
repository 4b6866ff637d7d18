#!/bin/sh
# Opens a report in headless Chromium at the width of a phone and of a desk, in
# light and dark: nothing may be wider than the window, nothing may be said on
# the console, no file but the page be asked for, and every plot must be legible:
# not flat, no letters below 9 pixels, beyond the plot's edge or upon others.
# Skips where there is no browser.
#
#	bench/check_report.sh results/local/report.html [directory for screenshots]
set -eu
page=$1
shots=${2:-}
browser=
for name in chromium chromium-browser google-chrome; do
	if command -v "$name" >/dev/null; then browser=$name; break; fi
done
if [ -z "$browser" ]; then echo "check-report: no Chromium here, skipped"; exit 0; fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cat "$page" - >"$scratch/page.html" <<'SCRIPT'
<script>
const plots = [...document.querySelectorAll("figure > svg, .panels svg")]
const panels = [...document.querySelectorAll(".panels svg, .legend svg")]
const box = e => e.getBoundingClientRect()
// Slanting letters lie in boxes that say nothing.
const straight = t => { const m = t.getScreenCTM(); return Math.min(Math.abs(m.a), Math.abs(m.b)) < .01 }
const size = t => { const m = t.getScreenCTM(); return parseFloat(getComputedStyle(t).fontSize) * Math.hypot(m.a, m.b) }
const texts = p => [...p.querySelectorAll("text")].filter(straight)
const within = (t, p) => t.left > p.left - 3 && t.right < p.right + 3 && t.top > p.top - 3 && t.bottom < p.bottom + 3
const meet = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 5
parent.postMessage([
	innerWidth, document.scrollingElement.scrollWidth, performance.getEntriesByType("resource").length,
	plots.filter(p => box(p).height < 50).length,
	panels.flatMap(texts).filter(t => size(t) < 9).length,
	panels.flatMap(p => texts(p).filter(t => !within(box(t), box(p)))).length,
	panels.flatMap(p => texts(p).map(box).filter((a, i, all) => all.slice(0, i).some(b => meet(a, b)))).length,
].join(" "), "*")
</script>
SCRIPT
failed=0
for width in 360 1280; do
	# A browser's window has a least width; a frame has none.
	cat >"$scratch/frame.html" <<FRAME
<!DOCTYPE html><meta name="color-scheme" content="light dark"><body style="margin:0">
<script>onmessage = m => document.documentElement.dataset.checked = m.data</script>
<iframe src="page.html" width="$width" height="3000" style="border:0"></iframe>
FRAME
	for scheme in dark light; do
		run() {
			timeout 120 "$browser" --headless --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir="$scratch/profile" \
				--window-size=$width,3000 --blink-settings=preferredColorScheme=$([ $scheme = dark ] && echo 0 || echo 1) \
				--virtual-time-budget=3000 --enable-logging=stderr "$@" "file://$scratch/frame.html" 2>"$scratch/log"
		}
		got=$(run --dump-dom | sed -n 's/.*data-checked="\([0-9 ]*\)".*/\1/p' | head -1)
		console=$(grep CONSOLE "$scratch/log" || true)
		if [ "$got" != "$width $width 0 0 0 0 0" ] || [ -n "$console" ]; then
			echo "check-report: $width wide, $scheme: window, page, files asked for, flat plots, letters of plots that are small, beyond the edge, upon others are ${got:-nothing}: want $width $width 0 0 0 0 0 $console"
			failed=1
		fi
		[ -z "$shots" ] || run --screenshot="$shots/$width-$scheme.png" >/dev/null
	done
done
[ $failed = 1 ] || echo "check-report: $page is as wide as its window at 360 and 1280, in light and dark, and its plots are legible"
exit $failed

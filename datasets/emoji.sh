#!/bin/sh
# Makes images of classes from the emoji of npm packages, for train --data images:DIR/emoji/pretraining
# and images:DIR/emoji/transfer. Of every kind of emoji, one code point of two is for pretraining, in the
# drawings of the OTHER vendors and with its kind as its class, one of ten of them in val; the rest is for
# transfer, in the VENDOR's drawings and with its group as its class. So no code point is in both.
# Packages are downloaded and unpacked, not installed. Skin tones repeat other emoji and are left
# out, as are classes of less than 10 code points.
#
# usage: emoji.sh DIR VENDOR OTHER...
set -eu
dir=$1; shift
for tool in npm node; do
	command -v $tool >/dev/null || { echo "no $tool here, which emoji are fetched with: want Node.js and npm" >&2; exit 1; }
done
version=16.0.0
mkdir -p "$dir/vendors"
cd "$dir"
for vendor; do
	package=emoji-datasource-$vendor
	[ -e "vendors/$package-$version.tgz" ] || (cd vendors && npm pack --silent "$package@$version")
	mkdir -p "vendors/$vendor"
	tar -x -z -f "vendors/$package-$version.tgz" -C "vendors/$vendor" package/emoji.json "package/img/$vendor/64"
done
rm -rf emoji
node -e '
	const fs = require("fs"), path = require("path"), [dir, vendor, ...others] = process.argv.slice(1)
	const all = JSON.parse(fs.readFileSync(path.join("vendors", vendor, "package", "emoji.json"), "utf8"))
	all.sort((a, b) => a.sort_order - b.sort_order)
	const halves = [[], []], seen = new Map()
	for (const emoji of all) {
		const n = seen.get(emoji.subcategory) ?? 0
		seen.set(emoji.subcategory, n + 1)
		halves[n % 2].push(emoji)
	}
	const made = (name, emoji, field, vendors, splits) => {
		const classes = new Map()
		for (const e of emoji) classes.set(e[field], [...(classes.get(e[field]) ?? []), e.image])
		let images = 0, kept = 0
		for (const [of, names] of classes) {
			if (names.length < 10) continue
			kept++
			names.forEach((image, i) => {
				const into = path.join("emoji", name, splits(i), of.toLowerCase().replace(/[^a-z0-9]+/g, "-"))
				fs.mkdirSync(into, { recursive: true })
				for (const v of vendors) {
					const file = path.join("vendors", v, "package", "img", v, "64", image)
					if (!fs.existsSync(file)) continue
					fs.copyFileSync(file, path.join(into, v + "-" + image))
					images++
				}
			})
		}
		console.log(`images:${dir}/emoji/${name}: ${images} emoji of ${kept} classes`)
	}
	made("pretraining", halves[0], "subcategory", others, i => i % 10 ? "train" : "val")
	made("transfer", halves[1], "category", [vendor], () => "")' "$dir" "$@"

#!/bin/sh
# Makes images of classes from the emoji of npm packages, in the drawings of some vendors: in
# DIR/emoji the folders VENDOR-categories and VENDOR-subcategories, and in these one for each
# class, for train --data images:DIR/emoji/VENDOR-categories. Packages are downloaded and
# unpacked, not installed. Skin tones repeat other emoji and are left out, as are classes of
# less than 10 in the list of all vendors, so that these have the same classes.
#
# usage: emoji.sh DIR VENDOR...
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
	node -e '
		const fs = require("fs"), path = require("path"), vendor = process.argv[1]
		const from = path.join("vendors", vendor, "package")
		const all = JSON.parse(fs.readFileSync(path.join(from, "emoji.json"), "utf8"))
		for (const [field, name] of [["category", "categories"], ["subcategory", "subcategories"]]) {
			const classes = new Map()
			for (const emoji of all) {
				const of = emoji[field].toLowerCase().replace(/[^a-z0-9]+/g, "-")
				classes.set(of, [...(classes.get(of) ?? []), emoji.image])
			}
			let images = 0, kept = 0
			for (const [of, names] of classes) {
				if (names.length < 10) continue
				const into = path.join("emoji", vendor + "-" + name, of)
				fs.mkdirSync(into, { recursive: true })
				kept++
				for (const image of names) {
					const file = path.join(from, "img", vendor, "64", image)
					if (!fs.existsSync(file)) continue
					fs.copyFileSync(file, path.join(into, image))
					images++
				}
			}
			console.log(`images:${process.argv[2]}/emoji/${vendor}-${name}: ${images} emoji of ${kept} classes`)
		}' "$vendor" "$dir"
done

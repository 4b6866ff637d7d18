#!/bin/sh
# Makes images of classes from the themes of icons in Debian packages: a folder for each
# theme in DIR/icons, and in it one for each category, for train --data images:DIR/icons/THEME.
# Packages are downloaded and unpacked, not installed. Links repeat other icons and are left
# out, as are categories of less than 10.
#
# usage: icons.sh DIR PACKAGE...
set -eu
dir=$1; shift
for tool in apt-get dpkg-deb; do
	command -v $tool >/dev/null || { echo "no $tool here, which themes are fetched with: want a Debian system" >&2; exit 1; }
done
mkdir -p "$dir/themes"
cd "$dir"
for package; do
	ls themes/"${package}"_*.deb >/dev/null 2>&1 || (cd themes && apt-get download "$package")
	for file in themes/"${package}"_*.deb; do
		dpkg-deb --fsys-tarfile "$file" | tar -x ./usr/share/icons
	done
done
cd usr/share/icons
# THEME/48x48/CATEGORY as most have it, and THEME/CATEGORY/48.
for folder in */48x48/* */base/48x48/* */*/48; do
	[ -d "$folder" ] || continue
	category=${folder%/48}
	into=../../../icons/${folder%%/*}/${category##*/}
	if [ "$(find "$folder" -maxdepth 1 -type f -name '*.png' | wc -l)" -ge 10 ]; then
		mkdir -p "$into"
		find "$folder" -maxdepth 1 -type f -name '*.png' -exec cp {} "$into" \;
	fi
done
cd ../../../icons
for theme in *; do
	classes=$(ls "$theme" | wc -l)
	if [ "$classes" -lt 4 ]; then
		rm -r "$theme" # too few to tell apart
	else
		echo "images:$dir/icons/$theme: $(find "$theme" -type f | wc -l) icons of $classes classes"
	fi
done

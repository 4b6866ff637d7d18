package datasets

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"image"
	_ "image/jpeg" // a format that decodeImage knows
	_ "image/png"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"gpipebench/internal/failure"
	"gpipebench/internal/files"
	"gpipebench/nn/philox"
)

const (
	// MaxImages is the maximum size of the images of a data set in memory, in
	// bytes: one for each channel of each pixel of the configured size.
	MaxImages = 4 << 30

	maxImageFile   = 1 << 28 // bytes
	maxImagePixels = 1 << 26 // of a file, before it is scaled
)

// OpenImages reads PNG and JPEG images from one folder per class, which has the
// folder's name; classes are numbered in the bytewise order of their names.
//
// If dir contains train and val or test (val, if it contains both), they
// contain the classes, both the same, and val or test is held out. Otherwise
// dir itself contains the classes, and a tenth of every class (see
// ImageConfig.HeldOutOf), rounded up, is held out: the images whose names
// (class/file) have the smallest hashes, whatever the seed and the number of
// images.
//
// The largest square in the middle of an image is scaled to the configured
// size, by bilinear interpolation, widened in proportion if an image shrinks.
// Images have three channels, grey ones too; transparent pixels are blended
// with black; a colour profile or an orientation in the file is ignored. A
// file's first bytes, not its name, determine its format. Names that begin with
// a dot are ignored, and so are links to another file in the folder of the
// classes, or of the other split: they repeat an image, as most names in a theme of icons do, and could
// be held out while it is trained on. Any other file that is not an image is an
// error, as are a class without images and fewer than two classes.
func OpenImages(dir string, c Config) (*ImageSet, error) {
	size := cmp.Or(c.Images.Size, 32)
	if err := c.Images.validate(size); err != nil {
		return nil, err
	}
	name := "images:" + printable(dir)
	classes, listed, err := listImages(dir, cmp.Or(c.Images.HeldOutOf, DefaultHeldOutOf))
	if err != nil {
		return nil, err
	}
	if err := checkImages(len(listed[Train])+len(listed[HeldOut]), size, 3); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var images storedImages
	for split := range images {
		if images[split].pixels, err = decodeFiles(listed[split], size); err != nil {
			return nil, err
		}
		for _, f := range listed[split] {
			images[split].classes = append(images[split].classes, f.class)
		}
	}
	return newStoredSet(name, classes, size, 3, &images, c), nil
}

// labelled is the file of an image and its class.
type labelled struct {
	path  string
	class int32
}

// listImages returns the classes and the files of both splits, in order. One image in
// share of each class is held out where the folders do not say.
func listImages(dir string, share int) (classes []string, listed [2][]labelled, err error) {
	train := filepath.Join(dir, "train")
	held := firstFile(dir, "val", "test")
	if !exists(train) || !exists(held) {
		var all []labelled
		if classes, all, err = listClasses(dir); err == nil {
			listed, err = holdOut(dir, classes, all, share)
		}
		return classes, listed, err
	}
	if classes, listed[Train], err = listClasses(train, held); err != nil {
		return nil, listed, err
	}
	heldClasses, heldFiles, err := listClasses(held, train)
	if err != nil {
		return nil, listed, err
	}
	if !slices.Equal(heldClasses, classes) {
		return nil, listed, files.In("images", held, fmt.Errorf("classes %q, want those of %s, %q", heldClasses, printable(train), classes))
	}
	listed[HeldOut] = heldFiles
	return classes, listed, nil
}

// listClasses returns the folders in dir and their files, without links into dir or others.
func listClasses(dir string, others ...string) (classes []string, listed []labelled, err error) {
	if classes, err = list(dir); err != nil {
		return nil, nil, files.In("images", dir, err)
	}
	if len(classes) < 2 || len(classes) > maxVocab {
		return nil, nil, files.In("images", dir, fmt.Errorf("%d classes, want 2 to %d, a folder of images for each", len(classes), maxVocab))
	}
	for i, class := range classes {
		folder := filepath.Join(dir, class)
		names, err := list(folder)
		names = slices.DeleteFunc(names, func(name string) bool { return repeats(filepath.Join(folder, name), append(others, dir)) })
		if err == nil && len(names) == 0 {
			err = errors.New("empty, want PNG or JPEG images")
		}
		if err != nil {
			return nil, nil, files.In("images", folder, err)
		}
		for _, n := range names {
			listed = append(listed, labelled{filepath.Join(folder, n), int32(i)})
		}
	}
	return classes, listed, nil
}

// list returns the names in a folder in order, except those that begin with a
// dot.
func list(folder string) ([]string, error) {
	if info, err := os.Stat(folder); err != nil {
		return nil, err
	} else if !info.IsDir() {
		return nil, errors.New("is a file, want a folder of images")
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return names, nil
}

// repeats reports whether a file is a link to another one below any of some folders.
func repeats(file string, dirs []string) bool {
	info, err := os.Lstat(file)
	if err != nil || info.Mode()&fs.ModeSymlink == 0 {
		return false
	}
	target, err := filepath.EvalSymlinks(file)
	if err != nil {
		return false // reading it reports the error
	}
	return slices.ContainsFunc(dirs, func(dir string) bool {
		dir, err := filepath.EvalSymlinks(dir)
		if err != nil {
			return false
		}
		below, err := filepath.Rel(dir, target)
		return err == nil && filepath.IsLocal(below)
	})
}

// holdOut holds out one image in share of every class, rounded up.
func holdOut(dir string, classes []string, all []labelled, share int) (listed [2][]labelled, err error) {
	for len(all) > 0 {
		class := all[0].class
		n := 1
		for n < len(all) && all[n].class == class {
			n++
		}
		of := all[:n]
		all = all[n:]
		if n == 1 {
			return listed, files.In("images", filepath.Join(dir, classes[class]), fmt.Errorf("1 image, want 2 or more: one of %d of them, at least one, is held out", share))
		}
		hash := func(f labelled) uint64 { return philox.Hash(classes[class] + "/" + filepath.Base(f.path)) }
		hashes := make([]uint64, n)
		for i, f := range of {
			hashes[i] = hash(f)
		}
		slices.Sort(hashes)
		limit := hashes[ceilDiv(n, share)-1]
		for _, f := range of {
			split := Train
			if hash(f) <= limit {
				split = HeldOut
			}
			listed[split] = append(listed[split], f)
		}
	}
	return listed, nil
}

// decodeFiles returns the pixels of the listed files, (len(listed), size, size, 3).
func decodeFiles(listed []labelled, size int) ([]byte, error) {
	image := 3 * size * size
	pixels := make([]byte, len(listed)*image)
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, f := range listed {
		g.Go(func() error {
			if err := decodeFile(f.path, size, pixels[i*image:][:image]); err != nil {
				return files.In("images", f.path, err)
			}
			return nil
		})
	}
	return pixels, g.Wait()
}

// decodeFile reads and decodes a file. A decoder's panic, which in this goroutine
// would end the program, is an error too.
func decodeFile(file string, size int, pixels []byte) (err error) {
	defer failure.Catch(&err)
	data, err := readFile(file, maxImageFile)
	if err != nil {
		return err
	}
	return decodeImage(data, size, pixels)
}

// decodeImage decodes a PNG or JPEG file and scales it.
func decodeImage(data []byte, size int, pixels []byte) error {
	config, _, err := image.DecodeConfig(bytes.NewReader(data))
	if w, h := config.Width, config.Height; err == nil && (w < 1 || h < 1 || w > maxImagePixels/h) {
		err = fmt.Errorf("an image of %dx%d pixels, want 1 to %d", w, h, maxImagePixels)
	}
	if err != nil {
		return err
	}
	decoded, _, err := image.Decode(bytes.NewReader(data))
	if err == nil {
		scaleSquare(decoded, size, pixels)
	}
	return err
}

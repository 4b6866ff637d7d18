package datasets

import (
	"cmp"
	"errors"
	"fmt"
	"gpipebench/internal/files"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const (
	cifarSide  = 32
	cifarPlane = cifarSide * cifarSide
)

// cifar is the binary version of one of the two data sets of Krizhevsky
// (Learning Multiple Layers of Features from Tiny Images, 2009).
type cifar struct {
	kind        string
	folder      string // folder in the archive
	train, test []string
	names       string // the file of the classes' names
	labels      int    // bytes before an image; the last is its class
	classes     int
}

var cifar10 = cifar{
	kind: "cifar10", folder: "cifar-10-batches-bin",
	train: []string{"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin"},
	test:  []string{"test_batch.bin"}, names: "batches.meta.txt",
	labels: 1, classes: 10,
}

var cifar100 = cifar{
	kind: "cifar100", folder: "cifar-100-binary",
	train: []string{"train.bin"}, test: []string{"test.bin"}, names: "fine_label_names.txt",
	labels: 2, classes: 100,
}

// OpenCIFAR10 reads CIFAR-10's binary version from dir or its folder
// cifar-10-batches-bin: data_batch_1.bin to data_batch_5.bin, and
// test_batch.bin, which is held out. A record is a byte for the class, 0 to 9,
// and 3072 for the image: red, green and blue, each 32 rows of 32. A file has
// at least one record. The classes have the names in batches.meta.txt if it exists, else numbers.
func OpenCIFAR10(dir string, c Config) (*ImageSet, error) { return cifar10.open(dir, c) }

// OpenCIFAR100 reads CIFAR-100's binary version from dir or its folder
// cifar-100-binary: train.bin, and test.bin, which is held out. A record is as
// CIFAR-10's, but with two bytes before the image: the coarse class, which is
// not used, and the class, 0 to 99. The names are in
// fine_label_names.txt.
func OpenCIFAR100(dir string, c Config) (*ImageSet, error) { return cifar100.open(dir, c) }

func (d cifar) open(dir string, c Config) (*ImageSet, error) {
	size := cmp.Or(c.Images.Size, cifarSide)
	if err := c.Images.validate(size); err != nil {
		return nil, err
	}
	name := d.kind + ":" + printable(dir)
	if inside := filepath.Join(dir, d.folder); exists(inside) {
		dir = inside
	}
	var images storedImages
	for split, names := range [][]string{Train: d.train, HeldOut: d.test} {
		for _, name := range names {
			file := filepath.Join(dir, name)
			data, err := readFile(file, MaxText)
			if err == nil {
				err = d.parse(data, &images[split])
			}
			if err != nil {
				return nil, files.In(d.kind, file, err)
			}
		}
	}
	names, err := d.classNames(filepath.Join(dir, d.names))
	if err != nil {
		return nil, files.In(d.kind, filepath.Join(dir, d.names), err)
	}
	if err := images.scale(cifarSide, size, 3); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return newStoredSet(name, names, size, 3, &images, c), nil
}

// parse adds the records of a file: pixels are (N, 32, 32, 3).
func (d cifar) parse(data []byte, all *storedSplit) error {
	size := d.labels + 3*cifarPlane
	if len(data) == 0 || len(data)%size != 0 {
		return fmt.Errorf("%d bytes, want records of %d", len(data), size)
	}
	for record := range slices.Chunk(data, size) {
		class, planes := int32(record[d.labels-1]), record[d.labels:]
		if int(class) >= d.classes {
			return fmt.Errorf("class %d, want 0 to %d", class, d.classes-1)
		}
		for p := range cifarPlane {
			all.pixels = append(all.pixels, planes[p], planes[cifarPlane+p], planes[2*cifarPlane+p])
		}
		all.classes = append(all.classes, class)
	}
	return nil
}

// maxNames is the maximum size of the file of class names, in bytes.
const maxNames = 1 << 20

// classNames returns the lines of a file, which may be missing.
func (d cifar) classNames(file string) ([]string, error) {
	data, err := readFile(file, maxNames)
	if errors.Is(err, fs.ErrNotExist) {
		return numbers(d.classes), nil
	}
	if err != nil {
		return nil, err
	}
	var names []string
	for line := range strings.Lines(string(data)) {
		if name := strings.TrimSpace(line); name != "" {
			names = append(names, name)
		}
	}
	if len(names) != d.classes {
		return nil, fmt.Errorf("%d names, want %d, one per line", len(names), d.classes)
	}
	return names, nil
}

// numbers returns names for n classes that have none.
func numbers(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = strconv.Itoa(i)
	}
	return names
}

package datasets

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"gpipebench/internal/files"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
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
	coarse      int    // number of values of the first of two labels
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
	labels: 2, coarse: 20, classes: 100,
}

// OpenCIFAR10 reads CIFAR-10's binary version from dir or its folder
// cifar-10-batches-bin: data_batch_1.bin to data_batch_5.bin, and
// test_batch.bin, which is held out. A record is a byte for the class, 0 to 9,
// and 3072 for the image: red, green and blue, each 32 rows of 32. A file has
// at least one record, and all training files have equally many. The classes
// have the names in batches.meta.txt if it exists, else numbers.
func OpenCIFAR10(dir string, c Config) (*ImageSet, error) { return cifar10.open(dir, c) }

// OpenCIFAR100 reads CIFAR-100's binary version from dir or its folder
// cifar-100-binary: train.bin, and test.bin, which is held out. A record is as
// CIFAR-10's, but with two bytes before the image: the coarse class, 0 to 19,
// which is not used, and the class, 0 to 99. The names are in
// fine_label_names.txt.
func OpenCIFAR100(dir string, c Config) (*ImageSet, error) { return cifar100.open(dir, c) }

func (d cifar) open(dir string, c Config) (*ImageSet, error) {
	size := orDefault(c.Images.Size, cifarSide)
	if err := c.Images.validate(size); err != nil {
		return nil, err
	}
	name := d.kind + ":" + printable(dir)
	if inside := filepath.Join(dir, d.folder); exists(inside) {
		dir = inside
	}
	var images storedImages
	for split, names := range [][]string{Train: d.train, HeldOut: d.test} {
		all, first := &images[split], 0
		for i, f := range names {
			file := filepath.Join(dir, f)
			before := len(all.classes)
			err := d.read(file, all)
			n := len(all.classes) - before
			if err == nil && i > 0 && n != first {
				err = atByte(min(n, first)*d.record(), "%d records, want %d, as in %s", n, first, names[0])
			}
			if err != nil {
				return nil, inFile(d.kind, file, err)
			}
			first = n
		}
	}
	names, err := d.classNames(filepath.Join(dir, d.names))
	if err != nil {
		return nil, inFile(d.kind, filepath.Join(dir, d.names), err)
	}
	if err := images.scale(cifarSide, size, 3); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return newStoredSet(name, names, size, 3, &images, c), nil
}

// record returns the size of a record in bytes.
func (d cifar) record() int { return d.labels + 3*cifarPlane }

func (d cifar) read(file string, all *storedSplit) error {
	r, err := files.Open(file, files.Kind{What: "a file", Bytes: MaxText})
	if err != nil {
		return err
	}
	defer r.Close()
	all.pixels = slices.Grow(all.pixels, int(r.Size)/d.record()*3*cifarPlane)
	return d.parse(bufio.NewReaderSize(r, 64<<10), all)
}

// parse adds the records of a file: pixels are (N, 32, 32, 3).
func (d cifar) parse(r io.Reader, all *storedSplit) error {
	size := d.record()
	record := make([]byte, size)
	image := make([]byte, 3*cifarPlane)
	for i := 0; ; i++ {
		switch n, err := io.ReadFull(r, record); {
		case err == io.EOF && i == 0:
			return atByte(0, "empty, want records of %d bytes", size)
		case err == io.EOF:
			return nil
		case err == io.ErrUnexpectedEOF:
			return atByte(i*size+n, "ends %d bytes into record %d, want records of %d bytes", n, i+1, size)
		case err != nil:
			return err
		}
		if d.coarse > 0 && int(record[0]) >= d.coarse {
			return atByte(i*size, "coarse class %d, want 0 to %d", record[0], d.coarse-1)
		}
		class := int(record[d.labels-1])
		if class >= d.classes {
			return atByte(i*size+d.labels-1, "class %d, want 0 to %d", class, d.classes-1)
		}
		planes := record[d.labels:]
		for p := range cifarPlane {
			for c := range 3 {
				image[3*p+c] = planes[c*cifarPlane+p]
			}
		}
		all.pixels, all.classes = append(all.pixels, image...), append(all.classes, int32(class))
	}
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
	return d.parseNames(data)
}

func (d cifar) parseNames(data []byte) ([]string, error) {
	var names []string
	for line := range bytes.Lines(data) {
		if name := bytes.TrimSpace(line); len(name) > 0 {
			names = append(names, string(name))
		}
	}
	if len(names) != d.classes {
		return nil, atByte(len(data), "ends after %d names, want %d, one per line", len(names), d.classes)
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

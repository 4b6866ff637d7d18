package datasets

import (
	"encoding/binary"
	"fmt"
	"path/filepath"
)

const mnistClasses = 10

// OpenMNIST reads MNIST, or another data set of ten classes in its format
// (LeCun, Cortes and Burges, The MNIST Database of Handwritten Digits): the
// files train-images-idx3-ubyte and train-labels-idx1-ubyte, and for the
// held-out split the same with t10k instead of train. A dot may replace the
// hyphen before idx, and .gz may follow; a file that begins as gzip does is
// decompressed, whatever its name. Images are square, all of one size, and have
// one channel; classes are 0 to 9.
func OpenMNIST(dir string, c Config) (*ImageSet, error) {
	if err := c.Images.validate(orDefault(c.Images.Size, 28)); err != nil {
		return nil, err
	}
	var images storedImages
	side := 0
	for split, part := range []string{Train: "train", HeldOut: "t10k"} {
		file := idxFile(dir, part+"-images", "idx3-ubyte")
		labelFile := idxFile(dir, part+"-labels", "idx1-ubyte")
		shape, pixels, err := readIDX(file, 3)
		if err == nil {
			err = checkSquare(shape, side)
		}
		if err != nil {
			return nil, inFile("mnist", file, err)
		}
		side = shape[1]
		classes, err := readLabels(labelFile, shape[0], filepath.Base(file))
		if err != nil {
			return nil, inFile("mnist", labelFile, err)
		}
		images[split].pixels, images[split].classes = pixels, classes
	}
	size := orDefault(c.Images.Size, side)
	if err := c.Images.validate(size); err != nil {
		return nil, err
	}
	name := "mnist:" + printable(dir)
	if err := images.scale(side, size, 1); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return newStoredSet(name, numbers(mnistClasses), size, 1, &images, c), nil
}

// idxFile returns the existing one of the possible names of a file.
func idxFile(dir, part, kind string) string {
	return firstFile(dir, part+"-"+kind, part+"-"+kind+".gz", part+"."+kind, part+"."+kind+".gz")
}

// checkSquare checks the shape of images; side is the training images' side,
// or 0.
func checkSquare(shape []int, side int) error {
	switch {
	case shape[1] != shape[2]:
		return atByte(8, "images of %dx%d pixels, want square ones", shape[1], shape[2])
	case shape[1] > MaxImage:
		return atByte(8, "images of %dx%d pixels, want at most %d a side", shape[1], shape[2], MaxImage)
	case side != 0 && shape[1] != side:
		return atByte(8, "images of %dx%d pixels, want %dx%d as for training", shape[1], shape[2], side, side)
	}
	return nil
}

// readLabels reads the classes of n images.
func readLabels(file string, n int, imageFile string) ([]int32, error) {
	shape, labels, err := readIDX(file, 1)
	if err != nil {
		return nil, err
	}
	if shape[0] != n {
		return nil, atByte(4, "%d labels, want %d, the images in %s", shape[0], n, printable(imageFile))
	}
	classes := make([]int32, n)
	for i, l := range labels {
		if l >= mnistClasses {
			return nil, atByte(idxHeader(1)+i, "class %d, want 0 to %d", l, mnistClasses-1)
		}
		classes[i] = int32(l)
	}
	return classes, nil
}

func readIDX(file string, dims int) (shape []int, data []byte, err error) {
	raw, err := readFile(file, MaxText)
	if err != nil {
		return nil, nil, err
	}
	return parseIDX(raw, dims, MaxText)
}

// idxHeader returns the number of bytes before the elements.
func idxHeader(dims int) int { return 4 + 4*dims }

// parseIDX parses an IDX file of bytes, compressed by gzip or not: two bytes 0,
// 8 for unsigned bytes, the number of dimensions, and the dimensions, four
// bytes each, the highest first. Offsets in errors are in the decompressed
// file, except in errors about the compression.
func parseIDX(raw []byte, dims int, limit int64) (shape []int, data []byte, err error) {
	file, err := gunzip(raw, limit)
	if err != nil {
		return nil, nil, err
	}
	header := idxHeader(dims)
	want := uint32(8)<<8 | uint32(dims)
	switch {
	case len(file) == 0:
		return nil, nil, atByte(0, "empty, want an IDX file")
	case len(file) >= 4 && binary.BigEndian.Uint32(file) != want:
		return nil, nil, atByte(0, "magic number 0x%08x, want 0x%08x for bytes in %d dimensions", binary.BigEndian.Uint32(file), want, dims)
	case len(file) < header:
		return nil, nil, atByte(len(file), "ends in the header, want %d bytes of it", header)
	}
	total := int64(1)
	for d := range dims {
		n := int64(binary.BigEndian.Uint32(file[4+4*d:]))
		if n == 0 {
			return nil, nil, atByte(4+4*d, "dimension %d is 0, want 1 or more", d+1)
		}
		if total > limit/n {
			return nil, nil, atByte(4+4*d, "dimension %d is %d, want at most %d bytes in all", d+1, n, limit)
		}
		total *= n
		shape = append(shape, int(n))
	}
	data = file[header:]
	switch have := int64(len(data)); {
	case have < total:
		return nil, nil, atByte(len(file), "ends after %d bytes of data, want %d for %v", have, total, shape)
	case have > total:
		return nil, nil, atByte(header+int(total), "%d bytes too many, want %d for %v", have-total, total, shape)
	}
	return shape, data, nil
}

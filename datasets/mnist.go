package datasets

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"gpipebench/internal/files"
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
	if err := c.Images.validate(cmp.Or(c.Images.Size, 28)); err != nil {
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
			return nil, files.In("mnist", file, err)
		}
		side = shape[1]
		classes, err := readLabels(labelFile, shape[0])
		if err != nil {
			return nil, files.In("mnist", labelFile, err)
		}
		images[split].pixels, images[split].classes = pixels, classes
	}
	size := cmp.Or(c.Images.Size, side)
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
	if h, w := shape[1], shape[2]; h != w || h > MaxImage || side != 0 && h != side {
		return fmt.Errorf("images of %dx%d pixels, want square ones of at most %d a side, in both parts the same", h, w, MaxImage)
	}
	return nil
}

// readLabels reads the classes of n images.
func readLabels(file string, n int) ([]int32, error) {
	shape, labels, err := readIDX(file, 1)
	if err != nil {
		return nil, err
	}
	if shape[0] != n {
		return nil, fmt.Errorf("%d labels, want %d, one for each image", shape[0], n)
	}
	classes := make([]int32, n)
	for i, l := range labels {
		if l >= mnistClasses {
			return nil, fmt.Errorf("label %d is %d, want 0 to %d", i, l, mnistClasses-1)
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

// parseIDX parses an IDX file of bytes, compressed by gzip or not: two bytes 0,
// 8 for unsigned bytes, the number of dimensions, and the dimensions, four
// bytes each, the highest first.
func parseIDX(raw []byte, dims int, limit int64) (shape []int, data []byte, err error) {
	file, err := gunzip(raw, limit)
	if err != nil {
		return nil, nil, err
	}
	header := 4 + 4*dims
	if len(file) < header || binary.BigEndian.Uint32(file) != 8<<8|uint32(dims) {
		return nil, nil, fmt.Errorf("begins with % x, want an IDX file of bytes in %d dimensions: 00 00 08 %02[2]x, and these", file[:min(len(file), header)], dims)
	}
	total := int64(1)
	for d := range dims {
		n := int64(binary.BigEndian.Uint32(file[4+4*d:]))
		if n == 0 || total > limit/n {
			return nil, nil, fmt.Errorf("dimension %d is %d, want 1 or more and at most %d bytes in all", d+1, n, limit)
		}
		total *= n
		shape = append(shape, int(n))
	}
	if data = file[header:]; int64(len(data)) != total {
		return nil, nil, fmt.Errorf("%d bytes of data, want %d for %v", len(data), total, shape)
	}
	return shape, data, nil
}

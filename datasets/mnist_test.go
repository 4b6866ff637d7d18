package datasets

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gpipebench/internal/testkit"
)

// idx returns a file in the real format: bytes in the given dimensions.
func idx(data []byte, dims ...int) []byte {
	file := []byte{0, 0, 8, byte(len(dims))}
	for _, d := range dims {
		file = binary.BigEndian.AppendUint32(file, uint32(d))
	}
	return append(file, data...)
}

func gzipped(t testing.TB, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	testkit.Must(w.Write(data))(t)
	testkit.NoError(t, w.Close())
	return b.Bytes()
}

// digits returns n images of 9x9 pixels: pixel p of image i is 9i + p.
func digits(n int) []byte {
	var data []byte
	for i := range n {
		for p := range 81 {
			data = append(data, byte(9*i+p))
		}
	}
	return data
}

func mnistFiles() map[string][]byte {
	return map[string][]byte{
		"train-images-idx3-ubyte": idx(digits(4), 4, 9, 9),
		"train-labels-idx1-ubyte": idx([]byte{7, 0, 9, 1}, 4),
		"t10k-images-idx3-ubyte":  idx(digits(2), 2, 9, 9),
		"t10k-labels-idx1-ubyte":  idx([]byte{5, 6}, 2),
	}
}

func TestMNIST(t *testing.T) {
	compressed, dotted := map[string][]byte{}, map[string][]byte{}
	for name, data := range mnistFiles() {
		compressed[name+".gz"] = gzipped(t, data)
		dotted[strings.Replace(name, "-idx", ".idx", 1)] = gzipped(t, data) // its name does not show that
	}
	for _, files := range []map[string][]byte{mnistFiles(), compressed, dotted} {
		dir := writeFiles(t, files)
		s := testkit.Must(Open("mnist:"+dir, Config{}))(t).(*ImageSet)
		if s.Vocab() != 10 || !slices.Equal(s.Shape(), []int{9, 9, 1}) {
			t.Errorf("%s with %d classes and shape %v", s.Name(), s.Vocab(), s.Shape())
		}
		pixels := make([]byte, 81)
		for split, classes := range [][]int32{{7, 0, 9, 1}, {5, 6}} {
			for i, want := range classes {
				if got := s.pixels.read(Split(split), i, pixels); got != want || !bytes.Equal(pixels, digits(i + 1)[81*i:]) {
					t.Errorf("%v image %d has class %d, want %d, or other pixels", Split(split), i, got, want)
				}
			}
			testkit.Equal(t, s.Examples(Split(split)), len(classes), "images")
		}
		mustBatch(t, s, HeldOut, 0, 4)
	}
}

func TestMNISTErrors(t *testing.T) {
	images, labels := "train-images-idx3-ubyte", "train-labels-idx1-ubyte"
	good := mnistFiles()
	short := gzipped(t, good[images])
	for _, c := range []struct {
		file string
		data []byte // nil: missing
		want string // after the file's name
	}{
		{images, nil, "no such file or directory"},
		{"t10k-labels-idx1-ubyte", nil, "no such file or directory"},
		{images, []byte{}, "begins with , want an IDX file of bytes in 3 dimensions: 00 00 08 03, and these"},
		{images, good[images][:6], "begins with 00 00 08 03 00 00, want an IDX file of bytes in 3 dimensions: 00 00 08 03, and these"},
		{labels, good[images], "begins with 00 00 08 03 00 00 00 04, want an IDX file of bytes in 1 dimensions: 00 00 08 01, and these"},
		{images, good[images][:300], "284 bytes of data, want 324 for [4 9 9]"},
		{images, append(slices.Clone(good[images]), 1, 2), "326 bytes of data, want 324 for [4 9 9]"},
		{images, idx(nil, 4, 9, 0), "dimension 3 is 0, want 1 or more and at most 1073741824 bytes in all"},
		{images, idx(nil, 1<<20, 1<<20, 9), "dimension 2 is 1048576, want 1 or more and at most 1073741824 bytes in all"},
		{images, idx(digits(4), 4, 3, 27), "images of 3x27 pixels, want square ones of at most 1024 a side, in both parts the same"},
		{images, idx(make([]byte, 2048*2048), 1, 2048, 2048), "images of 2048x2048 pixels, want square ones of at most 1024 a side, in both parts the same"},
		{"t10k-images-idx3-ubyte", idx(make([]byte, 200), 2, 10, 10), "images of 10x10 pixels, want square ones of at most 1024 a side, in both parts the same"},
		{labels, idx([]byte{1, 2, 3}, 3), "3 labels, want 4, one for each image"},
		{labels, idx([]byte{1, 2, 10, 4}, 4), "label 2 is 10, want 0 to 9"},
		{images, short[:len(short)-3], "unexpected EOF"},
		{images, flipped(short, len(short)-6), "gzip: invalid checksum"},
		{images, append(slices.Clone(short), "garbage and more"...), "gzip: invalid header"},
	} {
		files := mnistFiles()
		files[c.file] = c.data
		dir := writeFiles(t, files)
		_, err := Open("mnist:"+dir, Config{})
		testkit.Equal(t, fmt.Sprint(err), "mnist: "+filepath.Join(dir, c.file)+": "+c.want)
	}
	for size, want := range map[int]string{7: "images: 7 pixels a side", 0: "images: 3 pixels a side, want 8 to 1024"} {
		files := mnistFiles()
		files[images], files["t10k-images-idx3-ubyte"] = idx(make([]byte, 4*9), 4, 3, 3), idx(make([]byte, 2*9), 2, 3, 3)
		_, err := OpenMNIST(writeFiles(t, files), Config{Images: ImageConfig{Size: size}})
		testkit.FailsFirst(t, err, want)
	}
}

// flipped returns data with one byte changed.
func flipped(data []byte, at int) []byte {
	data = slices.Clone(data)
	data[at] ^= 0xff
	return data
}

// Data that decompresses to more than allowed is rejected before it is all in
// memory.
func TestGunzipLimit(t *testing.T) {
	z := gzipped(t, make([]byte, 1000))
	testkit.Equal(t, len(testkit.Must(gunzip(z, 1000))(t)), 1000)
	testkit.Refused(gunzip(z, 999))(t, "more than 999 decompressed bytes")
}

func FuzzIDX(f *testing.F) {
	f.Add([]byte{}, uint8(1))
	f.Add(idx([]byte{1, 2, 3}, 3), uint8(1))
	f.Add(idx(digits(1), 1, 9, 9), uint8(3))
	f.Add(idx(nil, 1<<31, 1<<31, 1<<31), uint8(3))
	f.Add(gzipped(f, idx([]byte{1, 2, 3}, 3)), uint8(1))
	f.Add([]byte{0x1f, 0x8b, 8, 0}, uint8(1))
	f.Fuzz(func(t *testing.T, data []byte, d uint8) {
		const limit = 1 << 12
		dims := 1 + int(d%3)
		shape, elements, err := parseIDX(data, dims, limit)
		if err != nil {
			return
		}
		n := 1
		for _, s := range shape {
			n *= s
		}
		if len(shape) != dims || n < 1 || n != len(elements) || n > limit {
			t.Fatalf("%d bytes of shape %v", len(elements), shape)
		}
		plain, err := gunzip(data, 1<<20)
		if err != nil || !bytes.Equal(plain, idx(elements, shape...)) {
			t.Errorf("not what shape %v and %d elements make", shape, n)
		}
	})
}

// An image size does not turn a small file into gigabytes.
func TestMNISTIsBounded(t *testing.T) {
	const images = "train-images-idx3-ubyte"
	const n = 5000
	files := mnistFiles()
	files[images], files["train-labels-idx1-ubyte"] = idx(make([]byte, n), n, 1, 1), idx(make([]byte, n), n)
	files["t10k-images-idx3-ubyte"], files["t10k-labels-idx1-ubyte"] = idx(make([]byte, 1), 1, 1, 1), idx(make([]byte, 1), 1)
	dir := writeFiles(t, files)
	_, err := OpenMNIST(dir, Config{Images: ImageConfig{Size: 1024}})
	testkit.Equal(t, fmt.Sprint(err), "mnist:"+dir+": 5001 images of 1024x1024 pixels, want at most 4096 MiB")
}

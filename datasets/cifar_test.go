package datasets

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gpipebench/internal/testkit"
)

// cifarRecord is a record in the real format, with the given bytes before the
// image. Its value in channel c, row y and column x is seed + 64c + 2y + x.
func cifarRecord(seed int, labels ...byte) []byte {
	record := labels
	for c := range 3 {
		for y := range 32 {
			for x := range 32 {
				record = append(record, cifarValue(seed, c, y, x))
			}
		}
	}
	return record
}

func cifarValue(seed, c, y, x int) byte { return byte(seed + 64*c + 2*y + x) }

// writeFiles writes files into a new directory, except those given as nil.
func writeFiles(t testing.TB, files map[string][]byte) string {
	t.Helper()
	dir := t.TempDir()
	for name, data := range files {
		if data == nil {
			continue
		}
		file := filepath.Join(dir, name)
		testkit.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
		testkit.NoError(t, os.WriteFile(file, data, 0o600))
	}
	return dir
}

// cifar10Files are two records per file; record r of all has class r%10.
func cifar10Files() map[string][]byte {
	files := map[string][]byte{"batches.meta.txt": []byte("airplane\nautomobile\nbird\ncat\ndeer\ndog\nfrog\nhorse\nship\ntruck\n\n")}
	for i, f := range append(slices.Clone(cifar10.train), cifar10.test...) {
		files[f] = append(cifarRecord(2*i, byte(2*i%10)), cifarRecord(2*i+1, byte(2*i%10+1))...)
	}
	return files
}

func cifar100Files() map[string][]byte {
	var names strings.Builder
	for i := range 100 {
		fmt.Fprintf(&names, "class%d\n", i)
	}
	return map[string][]byte{
		"train.bin":            slices.Concat(cifarRecord(0, 3, 0), cifarRecord(1, 19, 99), cifarRecord(2, 0, 42)),
		"test.bin":             cifarRecord(5, 7, 77),
		"fine_label_names.txt": []byte(names.String()),
	}
}

// checkCIFAR checks an image's class and every value. A held-out image is the
// i-th after the n for training.
func checkCIFAR(t *testing.T, s *ImageSet, split Split, i, seed, class int) {
	t.Helper()
	pixels := make([]byte, 3072)
	testkit.Equal(t, s.pixels.read(split, i, pixels), int32(class), "%v image %d: class", split, i)
	for y := range 32 {
		for x := range 32 {
			for c := range 3 {
				if got, want := pixels[(y*32+x)*3+c], cifarValue(seed, c, y, x); got != want {
					t.Fatalf("%v image %d: channel %d at (%d, %d) is %d, want %d", split, i, c, y, x, got, want)
				}
			}
		}
	}
}

func TestCIFAR10(t *testing.T) {
	inside := map[string][]byte{}
	for name, data := range cifar10Files() {
		inside["cifar-10-batches-bin/"+name] = data
	}
	for _, files := range []map[string][]byte{cifar10Files(), inside} {
		dir := writeFiles(t, files)
		s := testkit.Must(Open("cifar10:"+dir, Config{}))(t).(*ImageSet)
		if s.Vocab() != 10 || s.Classes()[3] != "cat" || !slices.Equal(s.Shape(), []int{32, 32, 3}) {
			t.Errorf("%s with %d classes %v and shape %v", s.Name(), s.Vocab(), s.Classes(), s.Shape())
		}
		testkit.Equal(t, [2]int{s.Examples(Train), s.Examples(HeldOut)}, [2]int{10, 2}, "images")
		for i := range 10 {
			checkCIFAR(t, s, Train, i, i, i)
		}
		checkCIFAR(t, s, HeldOut, 0, 10, 0)
		checkCIFAR(t, s, HeldOut, 1, 11, 1)
		mustBatch(t, s, Train, 3, 4)
	}
}

func TestCIFAR100(t *testing.T) {
	s := testkit.Must(OpenCIFAR100(writeFiles(t, cifar100Files()), Config{}))(t)
	if s.Vocab() != 100 || s.Classes()[99] != "class99" || s.Examples(Train) != 3 || s.Examples(HeldOut) != 1 {
		t.Errorf("%d classes, %d and %d images", s.Vocab(), s.Examples(Train), s.Examples(HeldOut))
	}
	checkCIFAR(t, s, Train, 1, 1, 99)
	checkCIFAR(t, s, Train, 2, 2, 42)
	checkCIFAR(t, s, HeldOut, 0, 5, 77)
}

func TestCIFARErrors(t *testing.T) {
	two := cifar10Files()["data_batch_1.bin"]
	with := func(at int, value byte, data []byte) []byte {
		data = slices.Clone(data)
		data[at] = value
		return data
	}
	hundred := cifar100Files()
	for _, c := range []struct {
		set, file string
		data      []byte // nil: missing
		want      string // "" for none; after the file's name
	}{
		{"cifar10", "data_batch_3.bin", nil, "no such file or directory"},
		{"cifar10", "test_batch.bin", nil, "no such file or directory"},
		{"cifar10", "data_batch_1.bin", []byte{}, "0 bytes, want records of 3073"},
		{"cifar10", "data_batch_2.bin", two[:3073+100], "3173 bytes, want records of 3073"},
		{"cifar10", "data_batch_5.bin", with(3073, 10, two), "class 10, want 0 to 9"},
		{"cifar10", "batches.meta.txt", []byte("airplane\nbird\n"), "2 names, want 10, one per line"},
		{"cifar10", "test_batch.bin", two[:3073], ""},
		{"cifar100", "train.bin", with(2*3074+1, 100, hundred["train.bin"]), "class 100, want 0 to 99"},
		{"cifar100", "test.bin", hundred["test.bin"][:3073], "3073 bytes, want records of 3074"},
		{"cifar100", "fine_label_names.txt", nil, ""},
	} {
		files := cifar10Files()
		if c.set == "cifar100" {
			files = cifar100Files()
		}
		files[c.file] = c.data
		dir := writeFiles(t, files)
		s, err := Open(c.set+":"+dir, Config{})
		if c.want == "" {
			testkit.Equal(t, err, nil, "%s", c.file)
			continue
		}
		if want := c.set + ": " + filepath.Join(dir, c.file) + ": " + c.want; err == nil || err.Error() != want || s != nil {
			t.Errorf("%s: error %v, want %s", c.file, err, want)
		}
	}
	testkit.Refused(OpenCIFAR10(t.TempDir(), Config{Images: ImageConfig{Cutout: 33}}))(t, "cutout of 33")
}

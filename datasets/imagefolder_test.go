package datasets

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gpipebench/internal/failure"
	"gpipebench/internal/testkit"
)

// uniform is an image of one colour.
func uniform(w, h int, c color.Color) image.Image {
	out := image.NewRGBA(image.Rect(0, 0, w, h))
	for y := range h {
		for x := range w {
			out.Set(x, y, c)
		}
	}
	return out
}

func pngOf(t testing.TB, m image.Image) []byte {
	t.Helper()
	var out bytes.Buffer
	testkit.NoError(t, png.Encode(&out, m))
	return out.Bytes()
}

func jpegOf(t testing.TB, m image.Image) []byte {
	t.Helper()
	var out bytes.Buffer
	testkit.NoError(t, jpeg.Encode(&out, m, &jpeg.Options{Quality: 100}))
	return out.Bytes()
}

var (
	red  = color.RGBA{200, 10, 20, 255}
	blue = color.RGBA{10, 20, 200, 255}
)

// folderFiles are two images of each class in PNG and JPEG, in both parts.
func folderFiles(t testing.TB) map[string][]byte {
	files := map[string][]byte{}
	for class, c := range map[string]color.Color{"red": red, "blue": blue} {
		files["train/"+class+"/a.png"] = pngOf(t, uniform(8, 8, c))
		files["train/"+class+"/b.JPG"] = jpegOf(t, uniform(20, 11, c))
		files["val/"+class+"/a.jpeg"] = jpegOf(t, uniform(30, 30, c))
	}
	files["train/.hidden"] = []byte("x")
	files["train/red/.DS_Store"] = []byte("x")
	return files
}

func TestImageFolder(t *testing.T) {
	tested := map[string][]byte{}
	for name, data := range folderFiles(t) {
		tested[strings.Replace(name, "val/", "test/", 1)] = data
	}
	for _, files := range []map[string][]byte{folderFiles(t), tested} {
		dir := writeFiles(t, files)
		s := testkit.Must(Open("images:"+dir, Config{Images: ImageConfig{Size: 12}}))(t).(*ImageSet)
		testkit.EqualAll(t, s.Classes(), []string{"blue", "red"}, "%s: classes", s.Name())
		testkit.EqualAll(t, s.Shape(), []int{12, 12, 3}, "%s: shape", s.Name())
		testkit.Equal(t, [2]int{s.Examples(Train), s.Examples(HeldOut)}, [2]int{4, 2}, "images")
		pixels := make([]byte, 3*144)
		for _, split := range []Split{Train, HeldOut} {
			for i := range s.Examples(split) {
				class := s.pixels.read(split, i, pixels)
				want := []color.RGBA{blue, red}[class]
				for p, v := range pixels {
					// JPEG is not exact.
					if w := []byte{want.R, want.G, want.B}[p%3]; max(v, w)-min(v, w) > 2 {
						t.Fatalf("%v image %d of class %d: value %d is %d, want %d", split, i, class, p, v, w)
					}
				}
			}
		}
		mustBatch(t, s, Train, 0, 3)
	}
}

// Without parts, a tenth of each class is held out, always the same images.
func TestImageFolderHoldsOut(t *testing.T) {
	var before map[string]bool
	for _, n := range []int{31, 40} {
		files := map[string][]byte{}
		for i := range n {
			files[fmt.Sprintf("a/%d.png", i)] = pngOf(t, uniform(8, 8, color.Gray{byte(i)}))
		}
		for i := range 2 {
			files[fmt.Sprintf("b/%d.png", i)] = pngOf(t, uniform(8, 8, color.Gray{byte(100 + i)}))
		}
		dir := writeFiles(t, files)
		classes, parts, err := listImages(dir, 10)
		testkit.NoError(t, err)
		held := map[string]bool{}
		counts := [2][2]int{}
		all := map[string]bool{}
		for split := range parts {
			for _, f := range parts[split] {
				counts[split][f.class]++
				name := classes[f.class] + "/" + filepath.Base(f.path)
				all[name] = true
				if Split(split) == HeldOut {
					held[name] = true
				}
			}
		}
		if counts != [2][2]int{{n - 4, 1}, {4, 1}} || len(all) != n+2 {
			t.Errorf("parts have %v of %d images", counts, len(all))
		}
		half := testkit.Must(OpenImages(dir, Config{Images: ImageConfig{Size: 8, HeldOutOf: 2}}))(t)
		testkit.Equal(t, [2]int{half.Examples(Train), half.Examples(HeldOut)}, [2]int{n/2 + 1, (n+1)/2 + 1}, "images, with half of each class held out, rounded up")
		if before != nil {
			// Nine more images replace at most a few.
			kept := 0
			for name := range maps.Keys(held) {
				if before[name] {
					kept++
				}
			}
			if kept < 3 {
				t.Errorf("of %v only %d are still held out", before, kept)
			}
		}
		before = held
		for seed := range uint64(2) {
			s := testkit.Must(OpenImages(dir, Config{Seed: seed, Images: ImageConfig{Size: 8}}))(t)
			pixels := make([]byte, 3*64)
			for i := range s.Examples(HeldOut) {
				s.pixels.read(HeldOut, i, pixels)
				name := fmt.Sprintf("a/%d.png", pixels[0])
				if pixels[0] >= 100 {
					name = fmt.Sprintf("b/%d.png", pixels[0]-100)
				}
				if !held[name] {
					t.Errorf("seed %d: %s is held out, want %v", seed, name, held)
				}
			}
		}
	}
}

// A link to another image of the folder is left out, one to an image elsewhere
// is not, and a link to nothing is an error.
func TestImageFolderLinks(t *testing.T) {
	elsewhere := writeFiles(t, map[string][]byte{"c.png": pngOf(t, uniform(8, 8, red))})
	for name, part := range map[string]string{"parts": "train", "no parts": ""} {
		files := map[string][]byte{}
		for file, data := range folderFiles(t) {
			if part == "" {
				file = strings.TrimPrefix(file, "train/")
				if strings.HasPrefix(file, "val/") {
					continue
				}
			}
			files[file] = data
		}
		dir := writeFiles(t, files)
		link := func(to, from string) {
			t.Helper()
			testkit.NoError(t, os.Symlink(to, filepath.Join(dir, part, from)))
		}
		before, _, err := listClasses(filepath.Join(dir, part))
		testkit.NoError(t, err)
		link("a.png", "red/same.png")
		link("../red/a.png", "blue/other.png")
		link("same.png", "red/twice.png")
		link(filepath.Join(elsewhere, "c.png"), "red/c.png")
		classes, listed, err := listClasses(filepath.Join(dir, part))
		if err != nil || !slices.Equal(classes, before) || len(listed) != 5 {
			t.Errorf("%s: %d images of %v, %v; want 5", name, len(listed), classes, err)
		}
		if part != "" { // held out, though it is trained on
			testkit.NoError(t, os.Symlink("../../train/red/a.png", filepath.Join(dir, "val/red/z.png")))
			_, parts, err := listImages(dir, 10)
			testkit.NoError(t, err)
			if slices.ContainsFunc(parts[HeldOut], func(f labelled) bool { return strings.HasSuffix(f.path, "z.png") }) {
				t.Errorf("%v is held out, with a link to what is trained on", parts[HeldOut])
			}
		}
		link("nowhere", "red/d.png")
		testkit.Refused(OpenImages(dir, Config{}))(t, "red/d.png: no such file")
	}
}

// The middle square is kept, and averaged if it shrinks.
func TestScaleSquare(t *testing.T) {
	in := image.NewRGBA(image.Rect(3, 5, 3+20, 5+8)) // an image need not begin at 0
	for y := range 8 {
		for x := range 20 {
			c := red // outside of the square
			if x >= 6 && x < 14 {
				c = color.RGBA{byte(255 * ((x + y) % 2)), byte(x), byte(y), 255}
			}
			in.Set(3+x, 5+y, c)
		}
	}
	same := make([]byte, 3*64)
	scaleSquare(in, 8, same)
	for y := range 8 {
		for x := range 8 {
			want := []byte{byte(255 * ((x + y) % 2)), byte(6 + x), byte(y)}
			testkit.EqualAll(t, same[3*(8*y+x):][:3], want, "pixel (%d, %d)", x, y)
		}
	}
	half := make([]byte, 3*16)
	scaleSquare(in, 4, half)
	for i, v := range half {
		if i%3 == 0 && (v < 120 || v > 135) {
			t.Errorf("a chequered image shrinks to %d, want grey", v)
		}
	}
	grey := make([]byte, 3*4)
	scaleSquare(uniform(5, 5, color.Gray{90}), 2, grey)
	testkit.EqualAll(t, grey, slices.Repeat([]byte{90}, 12), "grey")
	scaleSquare(uniform(5, 5, color.NRGBA{200, 100, 0, 128}), 2, grey)
	if grey[0] < 99 || grey[0] > 101 || grey[1] < 49 || grey[1] > 51 {
		t.Errorf("half transparent becomes %v, want half on black", grey[:3])
	}
}

func TestImageFolderErrors(t *testing.T) {
	good := pngOf(t, uniform(8, 8, red))
	noise := image.NewRGBA(image.Rect(0, 0, 40, 40))
	for i := range noise.Pix {
		noise.Pix[i] = byte(i * i >> 3)
	}
	long, photo := pngOf(t, noise), jpegOf(t, noise)
	huge := slices.Clone(good)
	copy(huge[16:24], []byte{0, 1, 0, 0, 0, 1, 0, 0}) // 65536x65536; its checksum is then wrong
	for _, c := range []struct {
		name string
		file string
		data []byte
		drop string // the files to leave out
		at   string // the file that the error names
		want string // the reason that it gives
	}{
		{"truncated PNG", "train/red/a.png", long[:len(long)/2], "", "train/red/a.png", "png: invalid format: not enough pixel data"},
		{"truncated in the header", "train/red/a.png", long[:20], "", "train/red/a.png", "unexpected EOF"},
		{"truncated JPEG", "train/red/a.png", photo[:len(photo)/2], "", "train/red/a.png", "invalid JPEG format: "},
		{"damaged PNG", "train/red/a.png", flipped(long, len(long)/2), "", "train/red/a.png", "png: invalid format: "},
		{"damaged header", "train/red/a.png", huge, "", "train/red/a.png", "png: invalid format: invalid checksum"},
		{"empty file", "val/blue/a.jpeg", []byte{}, "", "val/blue/a.jpeg", "image: unknown format"},
		{"text", "train/red/notes.txt", []byte("hello"), "", "train/red/notes.txt", "image: unknown format"},
		{"folder among images", "train/red/more/a.png", good, "", "train/red/more", "is a directory"},
		{"file among folders", "train/list.txt", []byte("hello"), "", "train/list.txt", "is a file, want a folder of images"},
		{"a class more to train", "train/green/a.png", good, "", "val", `classes ["blue" "red"], want those of `},
		{"a class more to test", "val/green/a.png", good, "", "val", `classes ["blue" "green" "red"], want those of `},
		{"empty class", "train/green/.hidden", good, "", "train/green", "empty, want PNG or JPEG images"},
		{"one class", "train/red/c.png", good, "train/blue", "train", "1 classes, want 2 to 65536, a folder of images for each"},
		{"no part", "red/a.png", good, "val", "red", "1 image, want 2 or more: one of 10 of them, at least one, is held out"},
	} {
		files := folderFiles(t)
		files[c.file] = c.data
		maps.DeleteFunc(files, func(name string, _ []byte) bool {
			return c.drop != "" && strings.HasPrefix(name, c.drop) || c.name == "no part" && strings.HasPrefix(name, "train/red")
		})
		dir := writeFiles(t, files)
		_, err := Open("images:"+dir, Config{})
		testkit.FailsFirst(t, err, "images: "+filepath.Join(dir, c.at)+": ", c.want)
	}
	testkit.Refused(OpenImages(t.TempDir(), Config{}))(t, "0 classes, want 2")
}

// A decoder that panics, in a goroutine of its own, is an error about its file.
func TestImageDecoderPanics(t *testing.T) {
	image.RegisterFormat("fake", "fake", func(io.Reader) (image.Image, error) { panic("no such row") },
		func(io.Reader) (image.Config, error) { return image.Config{Width: 8, Height: 8}, nil })
	files := folderFiles(t)
	files["train/red/a.png"] = []byte("fake")
	dir := writeFiles(t, files)
	_, err := Open("images:"+dir, Config{})
	line, _, ok := failure.Report(err)
	if want := "images: " + filepath.Join(dir, "train/red/a.png") + ": panic: no such row"; !ok || !strings.HasSuffix(line, want) {
		t.Errorf("%v, reported as %q; want a defect, %s", err, line, want)
	}
}

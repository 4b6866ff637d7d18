package datasets

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"image"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/image/draw"

	"gpipebench/internal/files"
)

// readFile reads a file of up to limit bytes.
func readFile(file string, limit int64) ([]byte, error) {
	return files.Read(file, files.Kind{What: "a file", Bytes: limit})
}

// firstFile returns the first existing one of several possible names of a file.
// If none exists, it returns the first name, for the error message.
func firstFile(dir string, names ...string) string {
	for _, n := range names {
		file := filepath.Join(dir, n)
		if exists(file) {
			return file
		}
	}
	return filepath.Join(dir, names[0])
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// gunzip decompresses data that begins as gzip does, to at most limit bytes.
func gunzip(data []byte, limit int64) ([]byte, error) {
	if !bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
		return data, nil
	}
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	out, err := files.ReadAll(io.LimitReader(z, limit+1), 0)
	if err == nil && int64(len(out)) > limit {
		err = fmt.Errorf("more than %d decompressed bytes", limit)
	}
	return out, err
}

// scaleSquare scales the largest square in the middle of an image to size
// pixels a side and writes its red, green and blue. The filter is a tent
// (bilinear interpolation), widened in proportion if the image shrinks, so that
// every pixel of the original counts. Transparent pixels are blended with
// black.
func scaleSquare(in image.Image, size int, pixels []byte) {
	b := in.Bounds()
	side := min(b.Dx(), b.Dy())
	corner := b.Min.Add(image.Pt((b.Dx()-side)/2, (b.Dy()-side)/2))
	square := image.Rectangle{Min: corner, Max: corner.Add(image.Pt(side, side))}
	out := image.NewRGBA(image.Rect(0, 0, size, size))
	draw.BiLinear.Scale(out, out.Bounds(), in, square, draw.Src, nil)
	for i := range size * size {
		copy(pixels[3*i:3*i+3], out.Pix[4*i:])
	}
}

// checkImages reports whether n images of a size are too many to be kept in
// memory.
func checkImages(n, size, channels int) error {
	if int64(n) > MaxImages/int64(size*size*channels) {
		return fmt.Errorf("%d images of %dx%d pixels, want at most %d MiB", n, size, size, MaxImages>>20)
	}
	return nil
}

// scale scales all images, of 1 or 3 channels.
func (s *storedImages) scale(from, to, channels int) error {
	if from == to {
		return nil
	}
	if err := checkImages(len(s[Train].classes)+len(s[HeldOut].classes), to, channels); err != nil {
		return err
	}
	scaled := make([]byte, 3*to*to)
	for split := range s {
		old := s[split].pixels
		n := len(s[split].classes)
		s[split].pixels = make([]byte, n*to*to*channels)
		for i := range n {
			in := old[i*from*from*channels:][:from*from*channels]
			out := s[split].pixels[i*to*to*channels:][:to*to*channels]
			scaleSquare(stored(in, from, channels), to, scaled)
			for p := range to * to {
				copy(out[p*channels:(p+1)*channels], scaled[3*p:])
			}
		}
	}
	return nil
}

// stored returns an image in memory, channels last, as an image.Image.
func stored(pixels []byte, size, channels int) image.Image {
	if channels == 1 {
		return &image.Gray{Pix: pixels, Stride: size, Rect: image.Rect(0, 0, size, size)}
	}
	out := image.NewRGBA(image.Rect(0, 0, size, size))
	for i := range size * size {
		copy(out.Pix[4*i:], pixels[3*i:3*i+3])
		out.Pix[4*i+3] = 0xff
	}
	return out
}

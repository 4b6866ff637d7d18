package safetensors

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpipebench/internal/testkit"
)

// byHand is a whole file, byte by byte: a (2,3) tensor, an empty one, a single
// number, and a name that JSON has to escape.
var (
	byHandHeader = `{"__metadata__":{"made by":"hand \"1\"","z":"<&>"},` +
		`"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},` +
		`"none":{"dtype":"F32","shape":[4,0],"data_offsets":[24,24]},` +
		`"layer1/\"ü\"":{"dtype":"F32","shape":[],"data_offsets":[24,28]}}`
	byHandData = "0000803f" + "00000040" + "00004040" + // 1 2 3
		"00000080" + "0000807f" + "010000c0" + // -0, +Inf, the number below -2
		"0000c07f" // a NaN, whatever its payload

	byHandTensors = []Tensor{
		{"a", []int{2, 3}, []float32{1, 2, 3, float32(math.Copysign(0, -1)), float32(math.Inf(1)), math.Nextafter32(-2, -3)}},
		{"none", []int{4, 0}, nil},
		{`layer1/"ü"`, nil, []float32{math.Float32frombits(0x7fc00001)}},
	}
	byHandMetadata = map[string]string{"z": "<&>", "made by": `hand "1"`}
)

// file puts a header of the right length in front of data. Write pads with
// spaces to a multiple of 64.
func file(header, data string) []byte {
	f := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(f, header...), data...)
}

func byHand(t testing.TB) []byte {
	// 8 + 233 bytes, and 15 spaces: 256.
	if len(byHandHeader) != 233 {
		t.Fatalf("the header by hand has %d bytes", len(byHandHeader))
	}
	data := testkit.Must(hex.DecodeString(byHandData))(t)
	f := []byte{0xf8, 0, 0, 0, 0, 0, 0, 0} // 248
	f = append(f, byHandHeader...)
	f = append(f, strings.Repeat(" ", 15)...)
	return append(f, data...)
}

func TestWriteByHand(t *testing.T) {
	for range 3 { // the same bytes, although maps have no order
		var got bytes.Buffer
		testkit.NoError(t, Write(&got, byHandTensors, byHandMetadata))
		if want := byHand(t); !bytes.Equal(got.Bytes(), want) {
			t.Fatalf("got\n%s\nwant\n%s", hex.Dump(got.Bytes()), hex.Dump(want))
		}
	}
}

func TestReadByHand(t *testing.T) {
	f := testkit.Must(readBytes(byHand(t)))(t)
	testkit.Equal(t, cmp.Diff(byHandMetadata, f.Metadata), "")
	same(t, byHandTensors, tensors(t, f))
}

// TestReadOthers: what Write never writes, but the format allows.
func TestReadOthers(t *testing.T) {
	a := `"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}`
	b := `"b":{"data_offsets":[4,8],"dtype":"F32","shape":[1,1,1]}`
	want := []Tensor{{"a", []int{1}, []float32{1}}, {"b", []int{1, 1, 1}, []float32{2}}}
	two := "\x00\x00\x80\x3f\x00\x00\x00\x40"
	for name, c := range map[string]struct {
		file []byte
		want []Tensor
	}{
		"another order":          {file("{"+b+","+a+"}", two), want},
		"white space":            {file("{ "+a+",\n\t"+b+" }   ", two), want},
		"escapes":                {file(`{"\u0061`+a[2:]+","+b+"}", two), want},
		"empty metadata":         {file(`{"__metadata__":{},`+a+","+b+"}", two), want},
		"metadata last":          {file("{"+a+","+b+`,"__metadata__":{"a":"b"}}`, two), want},
		"no tensor":              {file("{}", ""), nil},
		"empty among others":     {file(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"z":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}`, two[:4]), []Tensor{{"z", []int{0}, nil}, want[0]}},
		"a product beyond int64": {file(`{"z":{"dtype":"F32","shape":[2147483647,2147483647,2147483647,0],"data_offsets":[0,0]}}`, ""), []Tensor{{"z", []int{2147483647, 2147483647, 2147483647, 0}, nil}}},
	} {
		t.Run(name, func(t *testing.T) {
			f := testkit.Must(readBytes(c.file))(t)
			same(t, c.want, tensors(t, f))
		})
	}
}

// TestRefused has one file for each reason, each a change of a valid one.
func TestRefused(t *testing.T) {
	entry := func(fields string) string { return `{"w":{` + fields + `}}` }
	four := "\x00\x00\x80\x3f"
	good := file(entry(`"dtype":"F32","shape":[1],"data_offsets":[0,4]`), four)
	testkit.Must(readBytes(good))(t)
	two := func(first, second string) string {
		return `{"a":{"dtype":"F32","shape":[2],"data_offsets":[` + first + `]},"b":{"dtype":"F32","shape":[2],"data_offsets":[` + second + `]}}`
	}
	for _, c := range []struct {
		file []byte
		want string
	}{
		{nil, "not safetensors: the file has 0 bytes"},
		{good[:7], "the file has 7 bytes, want at least 8"},
		{good[:8], "not safetensors, or truncated: a header of 54 bytes should follow the first 8, there are 0"},
		{good[:61], "a header of 54 bytes should follow the first 8, there are 53"},
		{good[:62], `tensor "w": its data ends at byte 4, the file's at 0: truncated?`},
		{good[:65], `tensor "w": its data ends at byte 4, the file's at 3: truncated?`},
		{append(slices.Clone(good), 0), `1 bytes after the last tensor, "w"`},
		{[]byte("PK\x03\x04\x14\x00\x08\x08 and so on"), "not safetensors, or truncated: a header of "},
		{slices.Concat(bytes.Repeat([]byte{0xff}, 8), good[8:]), "a header of 18446744073709551615 bytes"},
		{file("", ""), "the header does not start with '{'"},
		{file(` {}`, ""), "the header does not start with '{'"},
		{file(`[]`, ""), "the header does not start with '{'"},
		{file("{", ""), "ends too early"},
		{file(`{"w"`, ""), "ends too early"},
		{file(`{"w":{"dtype":"F32"`, ""), "ends too early"},
		{file(`{"w" {}}`, ""), "the header's JSON: invalid character '{' after object key"},
		{file(`{,}`, ""), "the header's JSON: invalid character ','"},
		{file("{\"\xff\":{}}", ""), "the header is not UTF-8"},
		{file(`{}x`, ""), `"x" after the header's object`},
		{file("{}\n", ""), `"\n" after the header's object`},
		{file("{}\x00", ""), `"\x00" after the header's object`},
		{file("{} {}", ""), `"{" after the header's object`},
		{file(`{}`, "abc"), "3 bytes of data, and no tensors"},
		{file(`{"w":[1,2]}`, ""), `tensor "w": its entry: [ where "{" should be`},
		{file(`{"w":"a`+`\n`+`b"}`, ""), `tensor "w": its entry: "a\nb" where "{" should be`},
		{file(`{"__metadata__":null}`, ""), `__metadata__: null where "{" should be`},
		{file(`{"__metadata__":{"a":1}}`, ""), `__metadata__: "a": 1 where a string should be`},
		{file(`{"__metadata__":{"a":{}}}`, ""), `__metadata__: "a": { where a string should be`},
		{file(`{"__metadata__":{"a":"1","a":"1"}}`, ""), `__metadata__: "a" comes twice`},
		{file(`{"__metadata__":{},"__metadata__":{}}`, ""), `the header: "__metadata__" comes twice`},
		{file(`{"w":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},"\u0077":{}}`, ""), `the header: "w" comes twice`},

		{file(entry(`"shape":[1],"data_offsets":[0,4]`), four), `tensor "w": no dtype`},
		{file(entry(`"dtype":"F32","data_offsets":[0,4]`), four), `tensor "w": no shape`},
		{file(entry(`"dtype":"F32","shape":[1]`), four), `tensor "w": no data_offsets`},
		{file(entry(`"dtype":"F32","shape":[1],"data_offsets":[0,4],"dtype":"F32"`), four), `tensor "w": its entry: "dtype" comes twice`},
		{file(entry(`"dtype":"F32","shape":[1],"data_offsets":[0,4],"offset":1`), four), `tensor "w": unknown field "offset"`},
		{file(entry(`"DType":"F32","shape":[1],"data_offsets":[0,4]`), four), `tensor "w": unknown field "DType"`},
		{file(entry(`"dtype":"F16","shape":[2],"data_offsets":[0,4]`), four), `tensor "w": dtype "F16": want "F32" or "BF16"`},
		{file(entry(`"dtype":"BF16","shape":[1],"data_offsets":[0,4]`), four), `tensor "w": 4 bytes of data: shape [1] of BF16`},
		{file(entry(`"dtype":"BF16","shape":[1],"data_offsets":[0,3]`), four), `tensor "w": 3 bytes of data: shape [1] of BF16`},
		{file(entry(`"dtype":"f32","shape":[1],"data_offsets":[0,4]`), four), `tensor "w": dtype "f32": want "F32"`},
		{file(entry(`"dtype":32,"shape":[1],"data_offsets":[0,4]`), four), `tensor "w": 32 where a string should be`},
		{file(entry(`"dtype":"F32","shape":1,"data_offsets":[0,4]`), four), `tensor "w": shape: 1 where "[" should be`},
		{file(entry(`"dtype":"F32","shape":[-1],"data_offsets":[0,4]`), four), `tensor "w": shape: -1 is not a whole number of at least 0`},
		{file(entry(`"dtype":"F32","shape":[1.0],"data_offsets":[0,4]`), four), `tensor "w": shape: 1.0 is not a whole number of at least 0`},
		{file(entry(`"dtype":"F32","shape":[1e0],"data_offsets":[0,4]`), four), `tensor "w": shape: 1e0 is not a whole number of at least 0`},
		{file(entry(`"dtype":"F32","shape":["1"],"data_offsets":[0,4]`), four), `tensor "w": shape: "1" is not a whole number of at least 0`},
		{file(entry(`"dtype":"F32","shape":[1,null],"data_offsets":[0,4]`), four), `tensor "w": shape: null is not a whole number of at least 0`},
		{file(entry(`"dtype":"F32","shape":[9223372036854775808],"data_offsets":[0,4]`), four), `tensor "w": shape: 9223372036854775808 is not a whole number`},
		{file(entry(`"dtype":"F32","shape":[`+strings.Repeat("1,", 64)+`1],"data_offsets":[0,4]`), four), `tensor "w": shape: more than 64 numbers`},
		{file(entry(`"dtype":"F32","shape":[2],"data_offsets":[0,4]`), four), `tensor "w": 4 bytes of data: shape [2] of F32`},
		{file(entry(`"dtype":"F32","shape":[0],"data_offsets":[0,4]`), four), `tensor "w": 4 bytes of data: shape [0] of F32`},
		{file(entry(`"dtype":"F32","shape":[],"data_offsets":[0,0]`), ""), `tensor "w": 0 bytes of data: shape [] of F32`},
		{file(entry(`"dtype":"F32","shape":[1],"data_offsets":[0,3]`), four), `tensor "w": 3 bytes of data: shape [1] of F32`},
		{file(entry(`"dtype":"F32","shape":[1],"data_offsets":[0,5]`), four+"\x00"), `tensor "w": 5 bytes of data: shape [1] of F32`},
		{file(entry(`"dtype":"F32","shape":[0],"data_offsets":[0,3]`), four[:3]), `tensor "w": 3 bytes of data: shape [0] of F32`},
		// Products of 2^64 and 2^64 + 1, which wrap to 0 and 1.
		{file(entry(`"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]`), ""), "0 bytes of data"},
		{file(entry(`"dtype":"F32","shape":[274177,67280421310721],"data_offsets":[0,4]`), four), "4 bytes of data"},
		{file(entry(`"dtype":"F32","shape":[1],"data_offsets":[4,0]`), four), `tensor "w": data_offsets [4 0]: want`},
		{file(entry(`"dtype":"F32","shape":[1],"data_offsets":[0]`), four), `tensor "w": data_offsets [0]: want`},
		{file(entry(`"dtype":"F32","shape":[1],"data_offsets":[0,4,4]`), four), `tensor "w": data_offsets [0 4 4]: want`},
		{file(entry(`"dtype":"F32","shape":[1],"data_offsets":[9223372036854775808,9223372036854775812]`), four), `is not a whole number`},
		{file(entry(`"dtype":"F32","shape":[1],"data_offsets":[9223372036854775803,9223372036854775807]`), four), `ends at byte 9223372036854775807`},

		{file(two("0,8", "12,20"), strings.Repeat(four, 5)), `tensor "b": its data starts at byte 12: the 4 bytes before it belong to no tensor`},
		{file(two("4,12", "12,20"), strings.Repeat(four, 5)), `tensor "a": its data starts at byte 4: the 4 bytes before it`},
		{file(two("0,8", "4,12"), strings.Repeat(four, 3)), `tensor "b": its data starts at byte 4, within that of "a", which ends at 8`},
		{file(two("8,16", "8,16"), strings.Repeat(four, 4)), `tensor "a": its data starts at byte 8`},
		{file(two("0,8", "0,8"), strings.Repeat(four, 2)), `tensor "b": its data starts at byte 0, within that of "a"`},
		{file(two("0,8", "8,16"), strings.Repeat(four, 3)), `tensor "b": its data ends at byte 16, the file's at 12: truncated?`},
		{file(two("0,8", "8,16"), strings.Repeat(four, 5)), `4 bytes after the last tensor, "b"`},
	} {
		f, err := readBytes(c.file)
		switch {
		case err == nil:
			t.Errorf("%q was read as %v, want an error with %s", c.file, f.Tensors, c.want)
		case !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "weights: ") || strings.Contains(err.Error(), "\n"):
			t.Errorf("%q: got the error\n\t%v\nwant the file's name and\n\t%s", c.file, err, c.want)
		}
	}
}

// TestLongNamesAreCut: a message stays one line of limited length.
func TestLongNamesAreCut(t *testing.T) {
	long := strings.Repeat("x", 1<<16)
	for _, header := range []string{
		`{"` + long + `":{}}`, `{"w":{"` + long + `":1}}`, `{"w":{"dtype":"` + long + `"}}`,
		`{"w":{"dtype":"F32","shape":[` + strings.Repeat("1,", 1<<16) + `1],"data_offsets":[0,0]}}`,
		`{"w":{"dtype":"F32","shape":[` + strings.Repeat("1", 1<<16) + `],"data_offsets":[0,0]}}`,
	} {
		if _, err := readBytes(file(header, "")); err == nil || len(err.Error()) > 500 {
			t.Errorf("%.40s...: %v", header, err)
		}
	}
}

func TestWriteRefuses(t *testing.T) {
	one := []float32{1}
	for _, c := range []struct {
		tensors  []Tensor
		metadata map[string]string
		want     string
	}{
		{[]Tensor{{"w", []int{2}, one}}, nil, `tensor "w": shape [2] does not hold 1 numbers`},
		{[]Tensor{{"w", []int{-1, -1}, one}}, nil, `tensor "w": shape [-1 -1] has a negative dimension`},
		{[]Tensor{{"w", []int{0}, one}}, nil, `tensor "w": shape [0] does not hold 1 numbers`},
		{[]Tensor{{"w", nil, nil}}, nil, `tensor "w": shape [] does not hold 0 numbers`},
		{[]Tensor{{"w", nil, one}, {"v", nil, one}, {"w", nil, one}}, nil, `two tensors named "w"`},
		{[]Tensor{{"__metadata__", nil, one}}, nil, `the name is reserved for the metadata`},
		{[]Tensor{{"\xff", nil, one}}, nil, `tensor "\xff": the name is not UTF-8`},
		{nil, map[string]string{"a": "\xff"}, `metadata "a": "\xff" is not UTF-8`},
		{nil, map[string]string{"\xff": "a"}, `metadata "\xff": "a" is not UTF-8`},
	} {
		var w bytes.Buffer
		if err := Write(&w, c.tensors, c.metadata); err == nil || !strings.Contains(err.Error(), c.want) || w.Len() > 0 {
			t.Errorf("%v, %v: error %v and %d bytes, want %s and none", c.tensors, c.metadata, err, w.Len(), c.want)
		}
	}
}

// TestBFloat16: values of bfloat16 are widened, beside others of float32.
func TestBFloat16(t *testing.T) {
	var data []byte
	want := []float32{1, -2.5, 0, float32(math.Inf(1)), 0x1p-133, 3.140625}
	for len(want) < part+3 {
		want = append(want, float32(len(want)%256))
	}
	for _, v := range want {
		data = binary.LittleEndian.AppendUint16(data, uint16(math.Float32bits(v)>>16))
	}
	bytes := len(data)
	data = binary.LittleEndian.AppendUint32(data, math.Float32bits(0.1))
	header := fmt.Sprintf(`{"narrow":{"dtype":"BF16","shape":[%d],"data_offsets":[0,%d]},"wide":{"dtype":"F32","shape":[1],"data_offsets":[%d,%d]}}`,
		len(want), bytes, bytes, bytes+4)
	f := testkit.Must(readBytes(file(header, string(data))))(t)
	got := tensors(t, f)
	if !slices.Equal(got[0].Data, want) || got[1].Data[0] != 0.1 || got[0].Name != "narrow" {
		t.Errorf("read %v and %v", got[0].Data[:8], got[1])
	}
}

// TestChunks: tensors of sizes around that of a chunk.
func TestChunks(t *testing.T) {
	var want []Tensor
	for i, n := range []int{chunk/4 - 1, chunk / 4, chunk/4 + 1, 0, chunk + 3} {
		w := Tensor{Name: fmt.Sprint("w", i), Shape: []int{n}}
		for j := range n {
			w.Data = append(w.Data, float32(i*1000000+j))
		}
		want = append(want, w)
	}
	var b bytes.Buffer
	testkit.NoError(t, Write(&b, want, nil))
	f := testkit.Must(readBytes(b.Bytes()))(t)
	same(t, want, tensors(t, f))
	if start := b.Len() - int(f.data.Size()); start%64 != 0 {
		t.Errorf("data starts at byte %d", start)
	}
}

// TestFailingReader: an error after the header names the tensor.
func TestFailingReader(t *testing.T) {
	whole := byHand(t)
	size := int64(len(whole))
	for n := range whole {
		f, err := Read(bytes.NewReader(whole[:n]), size, "weights") // grew shorter
		for i := 0; err == nil && i < len(f.Tensors); i++ {
			err = f.Floats(i, make([]float32, f.Tensors[i].Elems()))
		}
		testkit.Fails(t, err, "the file became shorter")
	}
}

// A sparse file that claims the longest header is rejected without allocating it.
func TestHugeFiles(t *testing.T) {
	name := filepath.Join(t.TempDir(), "weights")
	f := testkit.Must(os.Create(name))(t)
	defer f.Close()
	testkit.NoError(t, errors.Join(binary.Write(f, binary.LittleEndian, uint64(maxHeader)), f.Truncate(1<<40)))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := Open(name)
	runtime.ReadMemStats(&after)
	testkit.Fails(t, err, "does not start with '{'")
	if took := after.TotalAlloc - before.TotalAlloc; took > 1<<20 {
		t.Errorf("it took %d bytes", took)
	}
}

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "weights")
	want := []Tensor{{"w", []int{2}, []float32{1, 2}}}
	for _, tensors := range [][]Tensor{byHandTensors, want} { // the second replaces the first
		testkit.NoError(t, WriteFile(name, tensors, nil))
	}
	f := testkit.Must(Open(name))(t)
	same(t, want, tensors(t, f))
	testkit.Equal(t, f.Close(), nil)
	before := testkit.Must(os.ReadFile(name))(t)

	// After a failure the old file is intact (see internal/files for others).
	if err := WriteFile(name, append(want, want...), nil); err == nil || !strings.HasPrefix(err.Error(), name+": two tensors") {
		t.Errorf("two tensors of one name: %v", err)
	}
	if after, err := os.ReadFile(name); err != nil || !bytes.Equal(before, after) {
		t.Errorf("a failure changed the file: %v", err)
	}

	for path, want := range map[string]string{
		filepath.Join(dir, "none"): filepath.Join(dir, "none") + ": no such file or directory",
		dir:                        dir + ": is a directory, want weights",
	} {
		if _, err := Open(path); err == nil || err.Error()[:len(want)] != want {
			t.Errorf("got %v, want %s...", err, want)
		}
	}
}

// FuzzRead: for any bytes, Read returns a one-line error or a valid file: one
// that other decoders of JSON accept too, whose tensors fill the data, and
// which is the same when written again. Off is the error in the header's
// length.
func FuzzRead(f *testing.F) {
	whole := byHand(f)
	f.Add(uint64(0), byHandHeader, whole[256:])
	f.Fuzz(func(t *testing.T, off uint64, header string, behind []byte) {
		data := file(header, string(behind))
		binary.LittleEndian.PutUint64(data, uint64(len(header))+off)
		got, err := readBytes(data)
		if err != nil {
			if s := err.Error(); !strings.HasPrefix(s, "weights: ") || strings.Contains(s, "\n") {
				t.Fatalf("error %q", s)
			}
			return
		}
		n := binary.LittleEndian.Uint64(data)
		if !json.Valid(data[8 : 8+n]) {
			t.Fatalf("accepted a header that is no JSON: %q", data[8:8+n])
		}
		all := tensors(t, got)
		var sum int64
		names := map[string]bool{}
		for i, w := range all {
			sum += int64(len(w.Data)) * bytesOf[got.Tensors[i].dtype]
			names[w.Name] = true
		}
		if int(sum) != len(data)-8-int(n) || len(names) != len(all) {
			t.Fatalf("%d numbers of %d tensors in %d bytes", sum, len(names), len(data)-8-int(n))
		}
		var b bytes.Buffer
		testkit.NoError(t, Write(&b, all, got.Metadata))
		again := testkit.Must(readBytes(b.Bytes()))(t)
		same(t, all, tensors(t, again))
		if len(got.Metadata)+len(again.Metadata) > 0 && !cmp.Equal(got.Metadata, again.Metadata) {
			t.Fatal(cmp.Diff(got.Metadata, again.Metadata))
		}
	})
}

func readBytes(data []byte) (*File, error) {
	return Read(bytes.NewReader(data), int64(len(data)), "weights")
}

// tensors reads all of a file.
func tensors(t testing.TB, f *File) []Tensor {
	t.Helper()
	var all []Tensor
	for i, e := range f.Tensors {
		w := Tensor{e.Name, e.Shape, make([]float32, e.Elems())}
		testkit.NoError(t, f.Floats(i, w.Data))
		all = append(all, w)
	}
	return all
}

// same compares tensors bit by bit, but for what distinguishes NaNs.
func same(t testing.TB, want, got []Tensor) {
	t.Helper()
	type bits struct {
		Name  string
		Shape []int
		Data  []byte
	}
	of := func(ts []Tensor) (all []bits) {
		for _, t := range ts {
			all = append(all, bits{t.Name, append([]int{}, t.Shape...), Append(nil, t.Data)})
		}
		return all
	}
	if want, got := of(want), of(got); !reflect.DeepEqual(want, got) { // of millions of numbers Diff takes seconds
		t.Fatalf("(-want +got)\n%s", cmp.Diff(want, got))
	}
}

package experiments

import (
	"bytes"
	"testing"
)

// What a record says is what was written, or it is refused.
func FuzzDecodeRecord(f *testing.F) {
	r := &record{Session: "s", Key: Key{Experiment: "e", Profile: "smoke"}, Sample: "a", Data: []byte(`{"x":[1,2.5]}`)}
	line, err := r.encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(line)
	f.Add(line[:len(line)-3])
	f.Add([]byte(`{"sample":"a","sha256":"0000000000000000"}`))
	f.Add([]byte(`,"sha256":""}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		r, err := decodeRecord(bytes.Clone(line))
		if err != nil {
			return
		}
		again, err := r.encode()
		if err != nil {
			t.Fatal(err)
		}
		if s, err := decodeRecord(again); err != nil || s.Sample != r.Sample || s.Key != r.Key {
			t.Errorf("%q comes back as %+v, %v", line, s, err)
		}
	})
}

func FuzzParseBytes(f *testing.F) {
	for _, s := range []string{"0", "64MiB", "1.5GiB", "2GB", "-1", "1e300TB", "0x1p4KiB", "inf", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if n, err := ParseBytes(s); err == nil && n < 0 {
			t.Errorf("%q is %d", s, n)
		}
	})
}

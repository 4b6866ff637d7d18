package datasets

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/nn"
)

// numbered returns a text in which four bytes identify their position.
func numbered(n int) []byte {
	text := make([]byte, 0, n+4)
	for i := 0; len(text) < n; i++ {
		text = append(text, byte(i>>16), byte(i>>8), byte(i), 0xff)
	}
	return text[:n]
}

// window returns example i of a batch as bytes: its inputs and the last target.
func window(t testing.TB, b nn.Batch, i int) []byte {
	t.Helper()
	row := b.Slice(i, i+1)
	in, out := row.Inputs[0].I32, row.Targets[0].I32
	w := []byte{byte(in[0])}
	for k := range out {
		if out[k] < 0 {
			for j := k; j < len(out); j++ {
				if out[j] != -1 || in[j] != 0 {
					t.Fatalf("padding holds (%d, %d), want (0, -1)", in[j], out[j])
				}
			}
			break
		}
		if in[k] != int32(w[k]) || out[k] > 255 {
			t.Fatalf("input %d is %d, not the target before it, %d", k, in[k], w[k])
		}
		w = append(w, byte(out[k]))
	}
	return w
}

func TestEpochVisitsEveryWindowOnce(t *testing.T) {
	for _, c := range []struct{ size, seqLen, examples int }{
		{1000, 16, 7}, {1000, 16, 1}, {1000, 16, 1000}, {160, 16, 2}, {171, 16, 4}, {10, 1, 3}, {20, 2, 2}, {333, 7, 8},
	} {
		s := testkit.Must(NewText("text:test", numbered(c.size), Config{SeqLen: c.seqLen, Seed: 4}))(t)
		train := s.Bytes(Train)
		batches := s.Batches(Train, c.examples)
		for epoch := range 3 {
			covered := make([]int, len(train)) // times that a byte is a target
			for i := range batches {
				b := mustBatch(t, s, Train, epoch*batches+i, c.examples)
				if want := min(c.examples, s.windows-i*c.examples); b.Examples() != want || b.Count != want*c.seqLen {
					t.Fatalf("%+v: batch %d has %d examples and count %d, want %d and %d", c, i, b.Examples(), b.Count, want, want*c.seqLen)
				}
				if c.seqLen < 7 {
					continue // too short to identify its position
				}
				for e := range b.Examples() {
					w := window(t, b, e)
					at := bytes.Index(train, w)
					if at < 0 {
						t.Fatalf("%+v: window %v is not in the training part", c, w)
					}
					for k := at + 1; k < at+len(w); k++ {
						covered[k]++
					}
				}
			}
			if c.seqLen < 7 {
				continue
			}
			first, last := slices.Index(covered, 1), len(covered)-1
			for last > 0 && covered[last] == 0 {
				last--
			}
			for k, n := range covered {
				if want := map[bool]int{true: 1}[k >= first && k <= last]; n != want {
					t.Fatalf("%+v: epoch %d has byte %d %d times, want %d", c, epoch, k, n, want)
				}
			}
			if left := len(train) - (last - first + 1); left > 2*c.seqLen {
				t.Errorf("%+v: epoch %d leaves out %d bytes", c, epoch, left)
			}
		}
	}
}

// Over the epochs the cut begins at every position, and the first window is
// another one each time, not the same one with another cut.
func TestEpochsDiffer(t *testing.T) {
	s := testkit.Must(NewText("text:test", numbered(2000), Config{SeqLen: 8}))(t)
	phases, firsts := map[int]bool{}, map[int]bool{}
	for epoch := range 100 {
		b := mustBatch(t, s, Train, epoch*s.Batches(Train, 1), 1)
		at := bytes.Index(s.Bytes(Train), window(t, b, 0))
		phases[at%8] = true
		firsts[at/8] = true
	}
	testkit.Equal(t, len(phases), 8, "phases of 8 in 100 epochs")
	if len(firsts) < 50 {
		t.Errorf("%d different windows came first in 100 epochs", len(firsts))
	}
}

func TestHeldOutCoversEveryByteOnce(t *testing.T) {
	for _, size := range []int{160, 169, 1000, 1001, 4096} {
		for _, n := range []int{1, 3, 100} {
			text := numbered(size)
			s := testkit.Must(NewText("text:test", text, Config{SeqLen: 16}))(t)
			if got := len(s.Bytes(HeldOut)); got != size/10 || len(s.Bytes(Train)) != size-got {
				t.Fatalf("%d bytes are split in %d and %d", size, len(s.Bytes(Train)), got)
			}
			got, count := []byte{}, 0
			for i := range s.Batches(HeldOut, n) {
				b := mustBatch(t, s, HeldOut, i, n)
				count += b.Count
				for e := range b.Examples() {
					w := window(t, b, e)
					if before := text[size-size/10+len(got)-1]; w[0] != before {
						t.Fatalf("window begins with %d, want %d, the byte before its first target", w[0], before)
					}
					got = append(got, w[1:]...)
				}
			}
			if !bytes.Equal(got, s.Bytes(HeldOut)) || count != len(got) {
				t.Errorf("%d bytes, batches of %d: targets are not the held-out part, or count %d is not their number", size, n, count)
			}
		}
	}
}

func TestTextTooShort(t *testing.T) {
	for size, want := range map[int]string{
		0:  "text:test: empty, want at least 80 bytes: the last tenth is held out and has to hold a sequence of 8",
		79: "text:test: 79 bytes, want at least 80 bytes: the last tenth is held out and has to hold a sequence of 8",
		80: "<nil>",
	} {
		_, err := NewText("text:test", make([]byte, size), Config{SeqLen: 8})
		testkit.Equal(t, fmt.Sprint(err), want, "%d bytes: error", size)
	}
	testkit.Refused(NewText("text:test", nil, Config{SeqLen: -8}))(t, "sequence length -8")
}

func TestTextYardsticks(t *testing.T) {
	var text []byte
	for _, p := range testkit.Must(NewMultilingual(smallTask()))(t).Pairs(0, Train) {
		text = append(append(text, p.TargetText...), '\n')
	}
	s := testkit.Must(NewText("text:test", text, Config{SeqLen: 16}))(t)
	y := testkit.Must(s.Yardsticks())(t)
	if len(y) != 3 || y[0].Bits != 8 || !(y[1].Bits < 4) || !(y[2].Bits < y[1].Bits) {
		t.Errorf("yardsticks %+v, want 8 bits, fewer than 4, and fewer still", y)
	}
}

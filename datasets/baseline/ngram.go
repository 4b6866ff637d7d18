// Package baseline has simple and ideal models, and a score, that networks are compared with:
// n-gram models of bytes, a dictionary that translates word by word, BLEU and chrF.
package baseline

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"gpipebench/internal/kernel/exactmath"
)

// NGram is a byte n-gram model with interpolated modified Kneser-Ney smoothing
// (Chen and Goodman, An Empirical Study of Smoothing Techniques for Language
// Modeling, TR-10-98, section 3.2): the baseline for a network on a text. On
// English, source code and licences its 5-gram took 2 to 8% fewer bits per byte
// than Witten-Bell smoothing and than absolute discounting of plain counts; up
// to n = 3, the three were within 1%.
//
// The probability of w after the context h of k-1 bytes is
//
//	p(w|h) = (c(hw) - D(c(hw)) + (D1 N1(h) + D2 N2(h) + D3 N3+(h)) p(w|h')) / c(h)
//
// where h' is h without its first byte, Ni(h) is the number of bytes seen i
// times after h, N3+ that of bytes seen three times or more, and c(h) the sum
// of c(hw). At order n, c counts occurrences. At a lower order it counts the
// different preceding bytes, where the start of the text is one more such byte:
// a lower order matters only where the higher ones have seen little, and there
// the number of contexts of a byte matters, not its frequency. Below order 1
// all 256 bytes are equal. After a context that was never seen p(w|h) is
// p(w|h').
type NGram struct {
	levels []level // of order 1..n
}

// maxNGram limits contexts to 32 bits.
const maxNGram = 5

// TrainNGram counts a text. n is 1 to 5, and the text has at least n bytes. The
// memory is proportional to the number of different n-grams.
func TrainNGram(n int, text []byte) (*NGram, error) {
	if n < 1 || n > maxNGram {
		return nil, fmt.Errorf("n-gram model of order %d, want 1 to %d", n, maxNGram)
	}
	if len(text) < n {
		return nil, errors.New("text is shorter than the n-gram model's order")
	}
	m := &NGram{levels: make([]level, n)}
	counts := occurrences(n, text)
	for k := n; k >= 1; k-- {
		m.levels[k-1] = newLevel(counts)
		if k > 1 {
			counts = continuations(counts, k-1, text)
		}
	}
	return m, nil
}

// gram is up to five bytes, the oldest one the most significant.
type gram uint64

// keep returns the last k bytes of g.
func (g gram) keep(k int) gram { return g & (1<<(8*k) - 1) }

// occurrences counts the n-grams of a text.
func occurrences(n int, text []byte) map[gram]uint32 {
	counts := map[gram]uint32{}
	var g gram
	for i, b := range text {
		g = (g<<8 | gram(b)).keep(n)
		if i >= n-1 {
			counts[g]++
		}
	}
	return counts
}

// continuations counts for each k-gram the different bytes before it, from the
// counts of order k+1.
func continuations(longer map[gram]uint32, k int, text []byte) map[gram]uint32 {
	counts := map[gram]uint32{}
	for g := range longer {
		counts[g.keep(k)]++
	}
	var first gram // its predecessor is the start of the text
	for _, b := range text[:k] {
		first = first<<8 | gram(b)
	}
	counts[first]++
	return counts
}

// Order returns n.
func (m *NGram) Order() int { return len(m.levels) }

// prob returns the probability of a byte after a context of the given number of bytes, at most n-1.
func (m *NGram) prob(context gram, known int, b byte) float64 {
	p := 1.0 / 256
	for k := range known + 1 {
		seen := m.levels[k].interpolate(context.keep(k), b, &p)
		if !seen {
			break // longer contexts were not seen either
		}
	}
	return p
}

// Bits returns the mean number of bits per byte of a text that follows a
// context, 0 for an empty text.
func (m *NGram) Bits(context, text []byte) float64 {
	if len(text) == 0 {
		return 0
	}
	most := m.Order() - 1
	var h gram
	for _, c := range context[max(0, len(context)-most):] {
		h = h<<8 | gram(c)
	}
	known := min(len(context), most)
	sum := 0.0
	for _, b := range text {
		sum -= exactmath.Log2(m.prob(h, known, b))
		h = (h<<8 | gram(b)).keep(most)
		known = min(known+1, most)
	}
	return sum / float64(len(text))
}

// level has the statistics of one order.
type level struct {
	contexts map[gram]row
	symbols  []byte // of all rows, ascending in each
	counts   []uint32
	discount [4]float64 // by count; the last for 3 and more
}

// row describes what was seen after one context.
type row struct {
	first, n int     // its range in symbols and counts
	total    float64 // sum of its counts
	rest     float64 // probability that discounts leave to the lower order
}

// newLevel arranges the counts of one order by context.
func newLevel(counts map[gram]uint32) level {
	l := level{
		contexts: map[gram]row{},
		symbols:  make([]byte, 0, len(counts)),
		counts:   make([]uint32, 0, len(counts)),
		discount: discounts(counts),
	}
	grams := slices.Sorted(maps.Keys(counts))
	for from, to := 0, 0; from < len(grams); from = to {
		context := grams[from] >> 8
		r := row{first: from}
		for ; to < len(grams) && grams[to]>>8 == context; to++ {
			c := counts[grams[to]]
			l.symbols = append(l.symbols, byte(grams[to]))
			l.counts = append(l.counts, c)
			r.total += float64(c)
			r.rest += l.discount[min(c, 3)]
		}
		r.n = to - from
		r.rest /= r.total
		l.contexts[context] = r
	}
	return l
}

// interpolate replaces p, the lower order's probability of b, by this order's.
// It reports whether the context was seen; if not, p is unchanged.
func (l *level) interpolate(context gram, b byte, p *float64) bool {
	r, seen := l.contexts[context]
	if !seen {
		return false
	}
	*p *= r.rest
	if i, ok := slices.BinarySearch(l.symbols[r.first:r.first+r.n], b); ok {
		c := l.counts[r.first+i]
		*p += (float64(c) - l.discount[min(c, 3)]) / r.total
	}
	return true
}

// discounts returns Chen and Goodman's estimates (equation 26) from the numbers
// of grams that were counted once to four times. If these are too few for an
// estimate of Di above 0 and below i, it is i/2, as in KenLM (Heafield, WMT
// 2011). Each is decided separately, and D1 may be 1: if nearly all grams occur
// once, as in noise, that is correct, and it matters most.
func discounts(counts map[gram]uint32) [4]float64 {
	var n [5]float64
	for _, c := range counts {
		if c < 5 {
			n[c]++
		}
	}
	y := n[1] / (n[1] + 2*n[2])
	var d [4]float64
	for i := 1; i <= 3; i++ {
		d[i] = float64(i) - float64(i+1)*y*n[i+1]/n[i]
		// Written such that it is false for 0/0, too.
		if ok := d[i] > 0 && (d[i] < float64(i) || i == 1); !ok {
			d[i] = float64(i) / 2
		}
	}
	return d
}

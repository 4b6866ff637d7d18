package baseline

import (
	"math"
	"strings"
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/nn/philox"
)

// Prob returns the probability of a byte after a context, of which only the
// last n-1 bytes matter; it may be shorter.
func (m *NGram) Prob(context []byte, b byte) float64 {
	var h gram
	for _, c := range context[max(0, len(context)-(m.Order()-1)):] {
		h = h<<8 | gram(c)
	}
	return m.prob(h, min(len(context), m.Order()-1), b)
}

// bruteProb is the model directly from its definition: counts are found by
// searching the text, nothing is stored, and the recursion goes down, not up.
func bruteProb(text, context string, n int, b byte) float64 {
	context = context[max(0, len(context)-(n-1)):]
	return bruteLevel(text, n, context, len(context)+1, b)
}

func bruteLevel(text string, n int, context string, k int, b byte) float64 {
	if k == 0 {
		return 1.0 / 256
	}
	var seen [257]int // number of bytes by how often they follow the context, up to
	total, rest := 0, 0.0
	d := bruteDiscounts(text, n, k)
	for w := range 256 {
		c := bruteCount(text, n, context+string([]byte{byte(w)}))
		seen[w] = c
		total += c
		if c > 0 {
			rest += d[min(c, 3)]
		}
	}
	lower := func() float64 {
		if k == 1 {
			return 1.0 / 256
		}
		return bruteLevel(text, n, context[1:], k-1, b)
	}
	if total == 0 {
		return lower()
	}
	p := rest / float64(total) * lower()
	if c := seen[b]; c > 0 {
		p += (float64(c) - d[min(c, 3)]) / float64(total)
	}
	return p
}

// bruteCount returns how often a gram occurs, or at an order below n after how
// many different bytes, with the start of the text as one.
func bruteCount(text string, n int, gram string) int {
	before := map[string]bool{}
	occurrences := 0
	for i := 0; i+len(gram) <= len(text); i++ {
		if text[i:i+len(gram)] == gram {
			occurrences++
			before[text[max(0, i-1):i]] = true
		}
	}
	if len(gram) == n {
		return occurrences
	}
	return len(before)
}

func bruteDiscounts(text string, n, k int) [4]float64 {
	grams := map[string]bool{}
	for i := 0; i+k <= len(text); i++ {
		grams[text[i:i+k]] = true
	}
	var times [5]float64
	for g := range grams {
		if c := bruteCount(text, n, g); c <= 4 {
			times[c]++
		}
	}
	d := [4]float64{0, 0.5, 1, 1.5}
	if times[1] == 0 {
		return d
	}
	y := times[1] / (times[1] + 2*times[2])
	d[1] = 1 - 2*y*times[2]/times[1]
	for i := 2; i <= 3; i++ {
		if times[i] > 0 && times[i+1] > 0 {
			if e := float64(i) - float64(i+1)*y*times[i+1]/times[i]; e > 0 {
				d[i] = e
			}
		}
	}
	return d
}

var tinyTexts = []string{
	"a", "ab", "aaaaaa", "abracadabra", "abababab", "the cat sat on the mat, the cat sat",
	"mississippi\x00\xff\x00\xff", string(words(90)),
}

// words returns a text that can be learnt: words in random order.
func words(n int) []byte {
	random := philox.NewStream(philox.KeyOf(1, "words"), 0)
	list := strings.Fields("a pipeline of stages that compute what the whole network would have computed micro batch by micro batch")
	var text []byte
	for len(text) < n {
		text = append(append(text, list[random.Intn(len(list))]...), ' ')
	}
	return text[:n]
}

func TestNGramMatchesItsDefinition(t *testing.T) {
	for _, text := range tinyTexts {
		for n := 1; n <= min(5, len(text)); n++ {
			m := testkit.Must(TrainNGram(n, []byte(text)))(t)
			for _, context := range contexts(text) {
				for _, b := range []byte("at \xffz") {
					got, want := m.Prob([]byte(context), b), bruteProb(text, context, n, b)
					if math.Abs(got-want) > 1e-12 {
						t.Fatalf("%q: %d-gram p(%q|%q) = %v, want %v", text, n, b, context, got, want)
					}
				}
			}
		}
	}
}

// contexts returns some that occur in the text and some that do not, short and
// long.
func contexts(text string) []string {
	out := []string{"", "a", "z", "qqqqqq", "\xff\x00", "zthe ", "thez"}
	for i := 0; i < min(len(text), 60); i += 5 {
		for _, n := range []int{1, 2, 4, 7} {
			if i+n <= len(text) {
				out = append(out, text[i:i+n])
			}
		}
	}
	return out
}

func TestBitsIsTheMeanOfProb(t *testing.T) {
	text := words(3000)
	train, held := text[:2700], text[2700:]
	last := 8.0
	for n := 1; n <= 5; n++ {
		m := testkit.Must(TrainNGram(n, train))(t)
		testkit.Equal(t, m.Order(), n, "order")
		for _, known := range []int{0, 2, 2700} {
			context := train[2700-known:]
			sum := 0.0
			for i, b := range held {
				sum -= math.Log2(m.Prob(text[2700-known:2700+i], b))
			}
			testkit.Near(t, m.Bits(context, held), sum/float64(len(held)), 1e-12, "%d-gram after %d bytes: bits", n, known)
		}
		bits := m.Bits(train, held)
		t.Logf("%d-gram: %.3f bits per byte", n, bits)
		if bits >= last {
			t.Errorf("%d-gram: %v bits per byte, not below %v of the order before", n, bits, last)
		}
		last = bits
		testkit.Equal(t, m.Bits(train, nil), 0, "an empty text has bits")
	}
}

// A context that is too short differs from one that begins with zeros.
func TestBitsBeginWithoutContext(t *testing.T) {
	text := []byte("\x00\x00b\x00\x00b\x00\x00b")
	m := testkit.Must(TrainNGram(3, text))(t)
	want := -math.Log2(m.Prob(nil, 'a'))/2 - math.Log2(m.Prob([]byte("a"), 'b'))/2
	testkit.Near(t, m.Bits(nil, []byte("ab")), want, 1e-12, "bits")
	want = -math.Log2(m.Prob(nil, 0))/2 - math.Log2(m.Prob([]byte{0}, 'b'))/2
	testkit.Near(t, m.Bits(nil, []byte("\x00b")), want, 1e-12, "bits")
}

func TestTrainNGramErrors(t *testing.T) {
	for _, c := range []struct {
		n    int
		text string
		want string
	}{
		{0, "abc", "n-gram model of order 0, want 1 to 5"},
		{6, "abcdefgh", "n-gram model of order 6, want 1 to 5"},
		{4, "abc", "text is shorter"},
	} {
		testkit.Refused(TrainNGram(c.n, []byte(c.text)))(t, c.want)
	}
}

func FuzzNGram(f *testing.F) {
	f.Add([]byte("abracadabra"), []byte("ra"), 3)
	f.Add([]byte{0, 0, 0, 1, 0, 0}, []byte{}, 5)
	f.Fuzz(func(t *testing.T, text, context []byte, n int) {
		if len(text) > 100 {
			text = text[:100]
		}
		m, err := TrainNGram(n, text)
		if err != nil {
			return
		}
		sum := 0.0
		for b := range 256 {
			sum += m.Prob(context, byte(b))
		}
		testkit.Near(t, sum, 1, 1e-9, "the sum of probabilities")
		testkit.Near(t, m.Prob(context, 'a'), bruteProb(string(text), string(context), n, 'a'), 1e-12, "p(a)")
	})
}

package datasets

import (
	"slices"
	"strings"
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/nn/philox"
)

// LearnBPE learns from words, with all of their characters as pieces; if they are too many, the rarest
// are left out.
func LearnBPE(words map[string]int, size int) *BPE {
	size = max(size, minBPE)
	counts := map[rune]int{}
	for w, n := range words {
		for _, c := range w {
			if n > 0 {
				counts[c] += n
			}
		}
	}
	return learnBPE(words, frequentCharacters(counts, size-int(firstPiece)-1), size)
}

// pieces returns all pieces of a vocabulary after the special tokens.
func pieces(v Vocabulary) []string {
	var out []string
	for id := firstPiece; int(id) < v.Size(); id++ {
		out = append(out, v.Piece(id))
	}
	return out
}

// The mark and a limited number of characters, and then no joins.
func TestBPEAlphabet(t *testing.T) {
	words := map[string]int{"aab": 3, "cb": 1, "dd": 0, "ee": -1}
	for size, want := range map[int][]string{
		0: {"</w>", "a"},
		6: {"</w>", "a"},
		7: {"</w>", "a", "b"},
		8: {"</w>", "a", "b", "c"},
		9: {"</w>", "a", "b", "c", "b</w>"}, // 4 times; a a, a b 3 times each
		// The rest of a a b</w>: a a and a b</w>, 3 each, and then aa b</w>.
		11:  {"</w>", "a", "b", "c", "b</w>", "aa", "aab</w>"},
		100: {"</w>", "a", "b", "c", "b</w>", "aa", "aab</w>"}, // no remaining pair occurs twice
	} {
		b := LearnBPE(words, size)
		testkit.EqualAll(t, pieces(b), want, "size %d: pieces", size)
		testkit.Equal(t, b.Size(), len(want)+4, "size %d: size", size)
	}
	testkit.EqualAll(t, LearnBPE(nil, 100).Encode("x"), []int32{Unknown, firstPiece}, "learned of nothing")
}

// slowBPE is the algorithm as printed in the paper: count everything, join,
// count again. It returns the joins in order.
func slowBPE(words map[string]int, size int) []string {
	cut := map[string][]string{}
	known := map[string]bool{"</w>": true}
	for w := range words {
		for _, c := range w {
			cut[w] = append(cut[w], string(c))
			known[string(c)] = true
		}
		cut[w] = append(cut[w], "</w>")
	}
	var joins []string
	for len(known)+4 < size {
		counts := map[[2]string]int{}
		for w, p := range cut {
			for i := range len(p) - 1 {
				counts[[2]string{p[i], p[i+1]}] += words[w]
			}
		}
		var best [2]string
		n := 1
		for p, c := range counts {
			if c > n || c == n && n > 1 && (p[0] < best[0] || p[0] == best[0] && p[1] < best[1]) {
				best, n = p, c
			}
		}
		if n == 1 {
			break
		}
		for w, p := range cut {
			cut[w] = joinOnce(p, best)
		}
		known[best[0]+best[1]] = true
		joins = append(joins, best[0]+"+"+best[1])
	}
	return joins
}

func joinOnce(p []string, best [2]string) []string {
	var out []string
	for i := 0; i < len(p); i++ {
		if i+1 < len(p) && p[i] == best[0] && p[i+1] == best[1] {
			out = append(out, p[i]+p[i+1])
			i++
		} else {
			out = append(out, p[i])
		}
	}
	return out
}

// joins returns the joins in the order in which they were learnt.
func joins(b *BPE) []string {
	out := make([]string, len(b.joins))
	for p, j := range b.joins {
		out[j.rank] = b.Piece(p.left) + "+" + b.Piece(p.right)
	}
	return out
}

// slowEncode joins the pair that was learnt first, the leftmost of several,
// until there is none.
func slowEncode(b *BPE, word string) []int32 {
	ids := b.characters(word)
	for {
		at, best := -1, join{}
		for i := range len(ids) - 1 {
			if j, ok := b.joins[pair{ids[i], ids[i+1]}]; ok && (at < 0 || j.rank < best.rank) {
				at, best = i, j
			}
		}
		if at < 0 {
			return ids
		}
		ids = append(append(slices.Clone(ids[:at]), best.id), ids[at+2:]...)
	}
}

// randomWords returns words of few letters, so that pairs overlap and tie.
func randomWords(random *philox.Stream, n, letters int) map[string]int {
	words := map[string]int{}
	for range n {
		var w strings.Builder
		for range 1 + random.Intn(9) {
			w.WriteRune(rune('a' + random.Intn(letters)))
		}
		words[w.String()] += 1 + random.Intn(5)
	}
	return words
}

func TestBPEAgainstCountingAllOver(t *testing.T) {
	random := philox.NewStream(philox.KeyOf(1, "bpe"), 0)
	for i := range 300 {
		words := randomWords(random, 1+random.Intn(40), 1+i%4)
		size := 10 + random.Intn(120)
		b := LearnBPE(words, size)
		testkit.EqualAll(t, joins(b), slowBPE(words, size), "%v, size %d: joins", words, size)
		if b.Size() > max(size, minBPE) {
			t.Fatalf("size %d, asked for %d", b.Size(), size)
		}
		for w := range randomWords(random, 20, 5) {
			testkit.EqualAll(t, b.Encode(w), slowEncode(b, w), "%q is cut", w)
		}
	}
}

func TestBPEDecode(t *testing.T) {
	b := LearnBPE(map[string]int{"ab": 5, "b": 2, "<": 1, "/": 1, "w": 1, ">": 1}, 40)
	for text, want := range map[string]string{
		"ab b":       "ab b",
		"  ab\t b\n": "ab b",
		"abz":        "ab\uFFFD",
		"z ab zz":    "\uFFFD ab \uFFFD\uFFFD",
		"a\xffb":     "a\uFFFDb",
		"b</w>b":     "b</w>b", // these are characters of the text
		"":           "",
	} {
		testkit.Equal(t, b.Decode(b.Encode(text)), want, "%q comes back as", text)
	}
	mark := firstPiece
	ab := b.Encode("ab")
	a := b.ids[bpePiece{text: "a"}]
	for _, c := range []struct {
		ids  []int32
		want string
	}{
		{nil, ""},
		{[]int32{mark, mark}, ""},
		{[]int32{mark, a, mark, mark, a}, "a a"},
		{[]int32{a, a}, "aa"}, // no end of a word
		{slices.Concat([]int32{Begin}, ab, []int32{Pad}, ab, []int32{End}, ab), "ab ab"},
		{[]int32{Unknown, mark, -7, 1000}, "\uFFFD \uFFFD\uFFFD"},
	} {
		testkit.Equal(t, b.Decode(c.ids), c.want, "%v reads", c.ids)
	}
}

func TestBPEPiecesOfSpecialTokens(t *testing.T) {
	for _, v := range []Vocabulary{LearnBPE(nil, 0), &morphemes{}} {
		for id, want := range map[int32]string{Pad: "<pad>", Begin: "<s>", End: "</s>", Unknown: "<unk>", 77: "<77>", -1: "<-1>"} {
			testkit.Equal(t, v.Piece(id), want, "piece %d", id)
		}
	}
}

// A word of 64 KiB: the time is n log n, not n*n.
func TestBPELongWord(t *testing.T) {
	long := strings.Repeat("abracadabra", 1<<16/11)
	b := LearnBPE(map[string]int{long: 1, "abra": 3}, 60)
	testkit.Equal(t, b.Decode(b.Encode(long)), long, "a long word does not come back")
}

func FuzzBPE(f *testing.F) {
	f.Add("low lower lowest new newer newest", "slower  \xff slowest\n", 30)
	f.Add("aaaa aaa aa a", "aaaaaaa", 12)
	f.Add("日本 日本語", "日 本語 </w>", 16)
	f.Fuzz(func(t *testing.T, learned, text string, size int) {
		if len(learned) > 300 || len(text) > 300 {
			return
		}
		words := map[string]int{}
		for _, w := range strings.Fields(learned) {
			words[w]++
		}
		b := LearnBPE(words, size%100)
		if b.Size() > max(size%100, minBPE) {
			t.Fatalf("size %d, asked for %d", b.Size(), size%100)
		}
		var want strings.Builder
		for i, w := range strings.Fields(text) {
			if i > 0 {
				want.WriteByte(' ')
			}
			for _, c := range w {
				if _, known := b.ids[bpePiece{text: string(c)}]; !known {
					c = '\uFFFD'
				}
				want.WriteRune(c)
			}
			testkit.EqualAll(t, b.encodeWord(w), slowEncode(b, w), "%q is cut", w)
		}
		ids := b.Encode(text)
		for _, id := range ids {
			if id != Unknown && (id < firstPiece || int(id) >= b.Size()) {
				t.Fatalf("id %d of %d", id, b.Size())
			}
		}
		testkit.Equal(t, b.Decode(ids), want.String(), "%q comes back as", text)
		testkit.EqualAll(t, b.encodeAll([]string{text, text})[1], ids, "encodeAll")
	})
}

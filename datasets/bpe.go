package datasets

import (
	"cmp"
	"container/heap"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// BPE is a vocabulary of byte-pair encoding (Sennrich, Haddow and Birch, Neural
// Machine Translation of Rare Words with Subword Units, ACL 2016, section 3.2).
//
// A word is its characters followed by an end-of-word mark. Learning repeatedly
// joins the two neighbours that occur most often within words; encoding applies
// the learnt joins, the earliest first. No piece crosses the end of a word, so
// white space separates words and is not kept: Decode(Encode(x)) is
// strings.Join(strings.Fields(x), " "), with U+FFFD for every character that
// was not learnt and for every byte that is not UTF-8. There is no other
// normalisation.
type BPE struct {
	pieces []bpePiece // by id - firstPiece
	ids    map[bpePiece]int32
	joins  map[pair]join
}

// bpePiece is consecutive characters of a word, and the mark if the word ends
// there.
type bpePiece struct {
	text string
	end  bool
}

func (p bpePiece) compare(q bpePiece) int {
	if c := strings.Compare(p.text, q.text); c != 0 || p.end == q.end {
		return c
	}
	if q.end {
		return -1
	}
	return 1
}

type pair struct{ left, right int32 }

// join is the result of joining a pair, and its rank in the order of learning.
type join struct{ rank, id int32 }

// minBPE is the size of the smallest vocabulary: the special tokens, the mark
// and a character.
const minBPE = int(firstPiece) + 2

// learnBPE learns a vocabulary of at most the given size (including special
// tokens, 6 or more) from the frequencies of words. The end-of-word mark comes
// first, then the characters that are to be pieces. Joins are learnt in
// descending order of count, until the vocabulary is full or no pair occurs
// twice. Of equally frequent pairs it takes the first in byte order, comparing
// the left pieces before the right ones.
//
// Counts are updated only where a join changes them, so the time is
// proportional to the number of different words in the text and of the joins in
// them.
func learnBPE(words map[string]int, characters []rune, size int) *BPE {
	l := newLearner(words, characters, size)
	for len(l.pieces)+int(firstPiece) < l.size {
		p, ok := l.mostFrequent()
		if !ok {
			break
		}
		l.join(p)
	}
	return &l.BPE
}

// bpeLearner is a vocabulary and the words from which it is learnt, in its
// pieces.
type bpeLearner struct {
	BPE
	size   int
	words  [][]int32
	times  []int // frequency of each word
	counts map[pair]int
	where  map[pair][]int32 // words that contain, or contained, the pair
	queue  queue[pairCount]
}

func newLearner(words map[string]int, characters []rune, size int) *bpeLearner {
	l := &bpeLearner{
		BPE:    BPE{ids: map[bpePiece]int32{}, joins: map[pair]join{}},
		size:   size,
		counts: map[pair]int{},
		where:  map[pair][]int32{},
	}
	l.queue.before = l.before
	l.add(bpePiece{end: true})
	sorted := slices.Sorted(maps.Keys(words)) // must not depend on the map's order
	sorted = slices.DeleteFunc(sorted, func(w string) bool { return words[w] < 1 })
	for _, c := range characters {
		l.add(bpePiece{text: string(c)})
	}
	for _, w := range sorted {
		i := int32(len(l.words))
		l.words, l.times = append(l.words, l.characters(w)), append(l.times, words[w])
		for k := range len(l.words[i]) - 1 {
			l.count(l.words[i][k], l.words[i][k+1], words[w], i)
		}
	}
	for p, n := range l.counts {
		l.queue.items = append(l.queue.items, pairCount{p, n})
	}
	heap.Init(&l.queue)
	return l
}

// frequentCharacters returns the most frequent characters; equally frequent ones in
// order of code.
func frequentCharacters(counts map[rune]int, limit int) []rune {
	chars := slices.SortedFunc(maps.Keys(counts), func(a, b rune) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	return chars[:min(len(chars), limit)]
}

// add returns the id of a piece, which it adds if it is new.
func (b *BPE) add(p bpePiece) int32 {
	id, ok := b.ids[p]
	if !ok {
		id = firstPiece + int32(len(b.pieces))
		b.pieces, b.ids[p] = append(b.pieces, p), id
	}
	return id
}

// characters returns a word before any join.
func (b *BPE) characters(word string) []int32 {
	ids := make([]int32, 0, utf8.RuneCountInString(word)+1)
	for _, c := range word {
		id, ok := b.ids[bpePiece{text: string(c)}]
		if !ok {
			id = Unknown
		}
		ids = append(ids, id)
	}
	return append(ids, firstPiece) // the mark
}

// count adds n occurrences of a pair in a word, or removes them if n < 0.
// Unknown characters are not joined.
func (l *bpeLearner) count(left, right int32, n int, word int32) {
	if left == Unknown || right == Unknown {
		return
	}
	p := pair{left, right}
	l.counts[p] += n
	if n > 0 {
		if in := l.where[p]; len(in) == 0 || in[len(in)-1] != word {
			l.where[p] = append(in, word)
		}
	}
}

// mostFrequent returns the next pair to join. The queue may contain a pair
// several times, with outdated counts, but never with less than the true one.
func (l *bpeLearner) mostFrequent() (pair, bool) {
	for l.queue.Len() > 0 {
		top := heap.Pop(&l.queue).(pairCount)
		switch n := l.counts[top.pair]; {
		case n < 2:
		case n < top.n:
			heap.Push(&l.queue, pairCount{top.pair, n})
		default:
			return top.pair, true
		}
	}
	return pair{}, false
}

// join makes a pair a piece wherever it occurs.
func (l *bpeLearner) join(p pair) {
	left, right := l.piece(p.left), l.piece(p.right)
	id := l.add(bpePiece{left.text + right.text, right.end})
	l.joins[p] = join{int32(len(l.joins)), id}
	in := l.where[p]
	delete(l.where, p)
	slices.Sort(in)
	more := map[pair]bool{}
	for _, w := range slices.Compact(in) {
		l.joinIn(w, p, id, more)
	}
	delete(l.counts, p)
	for q := range more {
		if n := l.counts[q]; n >= 2 {
			heap.Push(&l.queue, pairCount{q, n})
		}
	}
}

// joinIn joins a pair in one word, from left to right, and adds the new pairs
// to more.
func (l *bpeLearner) joinIn(w int32, p pair, id int32, more map[pair]bool) {
	word, n := l.words[w], l.times[w]
	out := word[:0]
	joined := -1 // index in out of the last join
	gain := func(i int) {
		l.count(out[i], out[i+1], n, w)
		more[pair{out[i], out[i+1]}] = true
	}
	for i := 0; i < len(word); i++ {
		if i+1 == len(word) || word[i] != p.left || word[i+1] != p.right {
			out = append(out, word[i])
			if joined >= 0 && joined == len(out)-2 {
				gain(joined)
			}
			continue
		}
		// The pairs with both neighbours disappear. The left one is gone
		// already if that neighbour has just been joined.
		if len(out) > 0 && joined != len(out)-1 {
			l.count(out[len(out)-1], p.left, -n, w)
		}
		if i+2 < len(word) {
			l.count(p.right, word[i+2], -n, w)
		}
		out = append(out, id)
		joined = len(out) - 1
		if joined > 0 {
			gain(joined - 1)
		}
		i++
	}
	l.words[w] = out
}

// pairCount is a pair and how often it occurs.
type pairCount struct {
	pair
	n int
}

// before reports whether a is joined before b: the more frequent, or the first in byte order.
func (l *bpeLearner) before(a, b pairCount) bool {
	if a.n != b.n {
		return a.n > b.n
	}
	return cmp.Or(l.piece(a.left).compare(l.piece(b.left)), l.piece(a.right).compare(l.piece(b.right))) < 0
}

// queue is a heap of container/heap, with what comes before all others at its top.
type queue[T any] struct {
	items  []T
	before func(a, b T) bool
}

func (q *queue[T]) Len() int           { return len(q.items) }
func (q *queue[T]) Less(i, j int) bool { return q.before(q.items[i], q.items[j]) }
func (q *queue[T]) Swap(i, j int)      { q.items[i], q.items[j] = q.items[j], q.items[i] }
func (q *queue[T]) Push(x any)         { q.items = append(q.items, x.(T)) }

func (q *queue[T]) Pop() any {
	last := q.items[len(q.items)-1]
	q.items = q.items[:len(q.items)-1]
	return last
}

// Size returns the number of ids, including special tokens.
func (b *BPE) Size() int { return int(firstPiece) + len(b.pieces) }

// Encode returns the pieces of every word of a text.
func (b *BPE) Encode(text string) []int32 { return b.encodeAll([]string{text})[0] }

// encodeAll encodes many texts, but each different word only once.
func (b *BPE) encodeAll(texts []string) [][]int32 {
	known := map[string][]int32{}
	out := make([][]int32, len(texts))
	for i, t := range texts {
		for _, w := range strings.Fields(t) {
			ids, ok := known[w]
			if !ok {
				ids = b.encodeWord(w)
				known[w] = ids
			}
			out[i] = append(out[i], ids...)
		}
	}
	return out
}

// encodeWord repeatedly joins the pair that was learnt first, the leftmost of
// several, until there is none. A queue and a linked list keep the time at n
// log n for n characters, whatever the word.
func (b *BPE) encodeWord(word string) []int32 {
	ids := b.characters(word)
	n := len(ids)
	prev, next := make([]int32, n), make([]int32, n) // n: none; a removed piece has id -1
	for i := range ids {
		prev[i], next[i] = int32(i-1), int32(i+1)
	}
	joins := queue[candidate]{before: func(a, b candidate) bool {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.at, b.at)) < 0
	}}
	offer := func(i int32) {
		if i < 0 || int(next[i]) == n {
			return
		}
		p := pair{ids[i], ids[next[i]]}
		if j, ok := b.joins[p]; ok {
			heap.Push(&joins, candidate{j, p, i})
		}
	}
	for i := range ids {
		offer(int32(i))
	}
	for joins.Len() > 0 {
		c := heap.Pop(&joins).(candidate)
		i := c.at
		right := next[i]
		if ids[i] != c.left || int(right) == n || ids[right] != c.right {
			continue // one of them has been joined meanwhile
		}
		ids[i], ids[right] = c.id, -1
		next[i] = next[right]
		if int(next[i]) < n {
			prev[next[i]] = i
		}
		offer(prev[i])
		offer(i)
	}
	return slices.DeleteFunc(ids, func(id int32) bool { return id < 0 })
}

// candidate is a pair in a word that can be joined.
type candidate struct {
	join
	pair
	at int32
}

// Decode returns the words of ids, see Vocabulary.
func (b *BPE) Decode(ids []int32) string {
	var text strings.Builder
	space := false // before the next character
	write := func(s string) {
		if space && s != "" {
			text.WriteByte(' ')
			space = false
		}
		text.WriteString(s)
	}
	for _, id := range ids {
		switch {
		case id == End:
			return text.String()
		case id == Pad || id == Begin:
		case id < firstPiece || int(id) >= b.Size():
			write(unknownText)
		default:
			p := b.piece(id)
			write(p.text)
			space = space || p.end && text.Len() > 0
		}
	}
	return text.String()
}

// Piece returns the characters of an id, with </w> at the end of a word.
func (b *BPE) Piece(id int32) string {
	if id < firstPiece || int(id) >= b.Size() {
		return special(id)
	}
	p := b.piece(id)
	if p.end {
		return p.text + "</w>"
	}
	return p.text
}

func (b *BPE) piece(id int32) bpePiece { return b.pieces[id-firstPiece] }

package reduction

import (
	"iter"
	"sort"
)

// BlockFloats is the size of a block, the unit in which tensors are divided among
// replicas and in which norms are summed: 65,536 elements, the last block of a tensor
// shorter.
const BlockFloats = 1 << 16

// Block is a part of a tensor: its elements from From to To, without To.
type Block struct{ Tensor, From, To int }

// Len is the number of the block's elements.
func (b Block) Len() int { return b.To - b.From }

// Layout divides tensors into chunks of whole blocks, each no larger than one full
// block: a large tensor has several chunks, and small tensors share one. Chunks are
// what replicas own; messages carry several.
type Layout struct {
	chunks [][]Block
	floats []int // elements before each chunk, and of all
}

// NewLayout divides tensors of the given sizes, in elements.
func NewLayout(sizes []int) *Layout {
	l := &Layout{floats: []int{0}}
	var chunk []Block
	held := 0
	end := func() {
		if len(chunk) > 0 {
			l.chunks = append(l.chunks, chunk)
			l.floats = append(l.floats, l.floats[len(l.floats)-1]+held)
		}
		chunk, held = nil, 0
	}
	for t, size := range sizes {
		for from := 0; from < size; from += BlockFloats {
			b := Block{t, from, min(from+BlockFloats, size)}
			if held+b.To-b.From > BlockFloats {
				end()
			}
			chunk = append(chunk, b)
			held += b.To - b.From
		}
	}
	end()
	return l
}

// Chunks is the number of chunks.
func (l *Layout) Chunks() int { return len(l.chunks) }

// Blocks are the blocks of a chunk, in the tensors' order.
func (l *Layout) Blocks(chunk int) []Block { return l.chunks[chunk] }

// Floats is the number of elements of a chunk, at most BlockFloats.
func (l *Layout) Floats(chunk int) int { return l.floats[chunk+1] - l.floats[chunk] }

// Owned are the chunks, from from to to-1, that a rank out of ranks owns. Every chunk
// has one owner, owners follow each other, and their numbers of elements are as even
// as whole chunks allow; a rank may own none.
func (l *Layout) Owned(ranks, rank int) (from, to int) {
	return l.before(ranks, rank), l.before(ranks, rank+1)
}

// messageChunks is the number of an owner's consecutive chunks in a message, of which
// only its last may have fewer. Full ones have 1 MiB together: with fewer, two replicas of
// one process spend a fifth of their time on handing messages over.
const messageChunks = 4

// Messages is the number of messages with the chunks that a rank owns.
func (l *Layout) Messages(ranks, rank int) int {
	from, to := l.Owned(ranks, rank)
	return (to - from + messageChunks - 1) / messageChunks
}

// LargestMessage is the number of elements of the largest message with chunks that a rank
// owns; 0: it owns none.
func (l *Layout) LargestMessage(ranks, rank int) (floats int) {
	for m := range messages(l.Owned(ranks, rank)) {
		floats = max(floats, l.floats[m.to]-l.floats[m.from])
	}
	return floats
}

// before is the number of chunks of the ranks before a rank: those whose middle lies
// in their part of all elements.
func (l *Layout) before(ranks, rank int) int {
	all := l.floats[len(l.chunks)]
	return sort.Search(len(l.chunks), func(n int) bool { return (l.floats[n]+l.floats[n+1])*ranks > 2*all*rank })
}

// span are chunks from from to to-1: those of a message.
type span struct{ from, to int }

// messages are the messages that carry the chunks from from to to-1.
func messages(from, to int) iter.Seq[span] {
	return func(yield func(span) bool) {
		for ; from < to; from += messageChunks {
			if !yield(span{from, min(from+messageChunks, to)}) {
				return
			}
		}
	}
}

// pieces are the blocks of some chunks; those that follow each other in a tensor are one.
func (l *Layout) pieces(s span) (pieces []Block) {
	for _, chunk := range l.chunks[s.from:s.to] {
		for _, b := range chunk {
			if n := len(pieces); n > 0 && pieces[n-1].Tensor == b.Tensor {
				pieces[n-1].To = b.To
			} else {
				pieces = append(pieces, b)
			}
		}
	}
	return pieces
}

// of are the parts of the tensors that some chunks are.
func (l *Layout) of(s span, tensors [][]float32) (parts [][]float32) {
	for _, p := range l.pieces(s) {
		parts = append(parts, tensors[p.Tensor][p.From:p.To])
	}
	return parts
}

// Tensors lists the tensors that a message has parts of, in order: parts chunks, from chunk on.
func (l *Layout) Tensors(chunk, parts int) (tensors []int) {
	for ; chunk < len(l.chunks); chunk++ {
		for _, b := range l.chunks[chunk] {
			if n := len(tensors); n > 0 && tensors[n-1] == b.Tensor {
				continue
			}
			if len(tensors) == parts {
				return tensors
			}
			tensors = append(tensors, b.Tensor)
		}
	}
	return tensors
}

// in cuts a buffer into parts with the sizes of those of some chunks.
func (l *Layout) in(s span, buffer []float32) (parts [][]float32) {
	for _, p := range l.pieces(s) {
		n := p.Len()
		parts, buffer = append(parts, buffer[:n:n]), buffer[n:]
	}
	return parts
}

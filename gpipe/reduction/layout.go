package reduction

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
// what messages carry, and what replicas own.
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

// Largest is the number of elements of the largest chunk.
func (l *Layout) Largest() (floats int) {
	for chunk := range l.chunks {
		floats = max(floats, l.Floats(chunk))
	}
	return floats
}

// Owned are the chunks, from from to to-1, that a rank out of ranks owns. Every chunk
// has one owner, owners follow each other, and their numbers of elements are as even
// as whole chunks allow; a rank may own none.
func (l *Layout) Owned(ranks, rank int) (from, to int) {
	return l.before(ranks, rank), l.before(ranks, rank+1)
}

// before is the number of chunks of the ranks before a rank: those whose middle lies
// in their part of all elements.
func (l *Layout) before(ranks, rank int) int {
	all := l.floats[len(l.chunks)]
	n := 0
	for n < len(l.chunks) && (l.floats[n]+l.floats[n+1])*ranks <= 2*all*rank {
		n++
	}
	return n
}

// of are a chunk's parts of the tensors.
func (l *Layout) of(chunk int, tensors [][]float32) [][]float32 {
	parts := make([][]float32, len(l.chunks[chunk]))
	for i, b := range l.chunks[chunk] {
		parts[i] = tensors[b.Tensor][b.From:b.To]
	}
	return parts
}

// in cuts a buffer into pieces with the sizes of a chunk's blocks.
func (l *Layout) in(chunk int, buffer []float32) [][]float32 {
	parts := make([][]float32, len(l.chunks[chunk]))
	for i, b := range l.chunks[chunk] {
		n := b.To - b.From
		parts[i], buffer = buffer[:n:n], buffer[n:]
	}
	return parts
}

package datasets

import (
	"math"

	"gpipebench/internal/kernel/exactmath"
	"gpipebench/nn/philox"
)

// language is the stochastic process of Synthetic, constructed such that its
// entropies are known exactly.
//
// There are V symbols in S classes of V/S. S symbols may follow symbol a, one
// of each class: next(a, 0..S-1). Which of them does depends on the symbol b
// that is L tokens before (L = 2: the token before the current one): with probability p[r] it is the one of class
//
//	(class(b) + r) mod S
//
// so that every context has the same p, shifted, and every token after the
// first L has entropy exactly H(p), whatever precedes it.
//
// The second property is that looking back by less than L tokens does not
// help. For every pair of classes (k, c), next(., c) maps the symbols of class
// k one to one onto those of class c. A symbol then has S predecessors, one of
// each class. Let W be the chain that starts with a uniform symbol and
// continues with each successor with probability 1/S. Under W symbols stay
// uniform, and in reverse it goes to each predecessor with probability 1/S; so,
// given the tokens after it, the class of a token is uniform. Hence if L
// consecutive tokens follow W, the next token, given all but the first of them,
// is uniform over the successors, and the last L tokens follow W again. A
// sequence begins with L tokens drawn from W. So at every position the
// entropy for a model of order 1 to L-1 is exactly ln S, for one of order 0
// exactly ln V, and for the ideal model H(p), except for the first tokens,
// which have no token L before: ln S.
type language struct {
	vocab, succ int

	class []int32 // (vocab)
	next  []int32 // (vocab, succ): successor of each class

	// Probabilities are whole multiples of 2^-32, cumulated, so that the draws
	// follow exactly the distribution whose entropy is computed, and no
	// platform's exponential function can change a sequence.
	cum     []uint64  // (succ+1): 0 to 2^32
	p       []float64 // (succ)
	entropy float64   // of p, in nats
}

// lag is L above, and successorSkew the exponent of Zipf's law that p follows.
const (
	lag           = 2
	successorSkew = 1.5
)

func newLanguage(c SyntheticConfig, seed uint64) *language {
	l := &language{vocab: c.Vocab, succ: c.Successors}
	l.drawTable(philox.NewStream(philox.KeyOf(seed, "datasets/synthetic/language"), 0))
	l.cum = zipf(l.succ, successorSkew)
	l.p = make([]float64, l.succ)
	for r := range l.succ {
		l.p[r] = float64(l.cum[r+1]-l.cum[r]) / (1 << 32)
		l.entropy -= float64(l.p[r] * exactmath.Log(l.p[r]))
	}
	return l
}

func (l *language) drawTable(random *philox.Stream) {
	size := l.vocab / l.succ
	members := permutation(random, l.vocab) // class k is members[k*size:(k+1)*size]
	l.class = make([]int32, l.vocab)
	for i, symbol := range members {
		l.class[symbol] = int32(i / size)
	}
	l.next = make([]int32, l.vocab*l.succ)
	for k := range l.succ {
		for c := range l.succ {
			from, to := members[k*size:(k+1)*size], members[c*size:(c+1)*size]
			for i, j := range permutation(random, size) {
				l.next[int(from[i])*l.succ+c] = to[j]
			}
		}
	}
}

// permutation returns a uniform order of 0..n-1 (Fisher and Yates).
func permutation(random *philox.Stream, n int) []int32 {
	order := make([]int32, n)
	for i := range order {
		j := random.Intn(i + 1)
		order[i] = order[j]
		order[j] = int32(i)
	}
	return order
}

// zipf returns Zipf's law over n ranks, cumulated, in multiples of 2^-32: 0 to
// 2^32 (n+1 values).
func zipf(n int, skew float64) []uint64 {
	sum := 0.0
	for r := range n {
		sum += exactmath.Pow(float64(r+1), -skew)
	}
	cum := make([]uint64, n+1)
	upTo := 0.0
	for r := range n {
		upTo += exactmath.Pow(float64(r+1), -skew) / sum
		cum[r+1] = uint64(math.Round(min(upTo, 1) * (1 << 32)))
	}
	cum[n] = 1 << 32
	return cum
}

// generate fills tokens with a sequence.
func (l *language) generate(random *philox.Stream, tokens []int32) {
	for t := range tokens {
		switch {
		case t == 0:
			tokens[t] = int32(random.Intn(l.vocab))
		case t < lag:
			tokens[t] = l.next[int(tokens[t-1])*l.succ+random.Intn(l.succ)]
		default:
			c := (int(l.class[tokens[t-lag]]) + l.rank(random.Uint32())) % l.succ
			tokens[t] = l.next[int(tokens[t-1])*l.succ+c]
		}
	}
}

// rank maps a uniform word to a rank with distribution p.
func (l *language) rank(u uint32) int {
	r := 0
	for uint64(u) >= l.cum[r+1] {
		r++
	}
	return r
}

// floor returns the entropy of the n tokens after a sequence's first, in nats:
// the ideal model's expected total loss on n targets.
func (l *language) floor(n int) float64 {
	short := min(n, lag-1) // targets 1..L-1 of a sequence
	return float64(float64(short)*exactmath.Log(float64(l.succ))) + float64(float64(n-short)*l.entropy)
}

package llama

import "slices"

// Network is a network whose weights have been published. Its SeqLen is the longest sequence that
// it was pretrained with.
type Network struct {
	Name   string
	Config Config
	Params int64 // as published: the test of the package has the sources
}

// Published lists published networks. Llama 3's sizes are those of Llama 3.1.
var Published = []Network{
	{"llama2-7b", Config{Layers: 32, Dim: 4096, FeedForward: 11008, Heads: 32, KVHeads: 32, Vocab: 32000, SeqLen: 4096}, 6_738_415_616},
	{"llama2-13b", Config{Layers: 40, Dim: 5120, FeedForward: 13824, Heads: 40, KVHeads: 40, Vocab: 32000, SeqLen: 4096}, 13_015_864_320},
	{"llama2-70b", Config{Layers: 80, Dim: 8192, FeedForward: 28672, Heads: 64, KVHeads: 8, Vocab: 32000, SeqLen: 4096}, 68_976_648_192},
	{"llama3-8b", Config{Layers: 32, Dim: 4096, FeedForward: 14336, Heads: 32, KVHeads: 8, Vocab: 128256, SeqLen: 8192, RopeTheta: 500_000}, 8_030_261_248},
	{"llama3-70b", Config{Layers: 80, Dim: 8192, FeedForward: 28672, Heads: 64, KVHeads: 8, Vocab: 128256, SeqLen: 8192, RopeTheta: 500_000}, 70_553_706_496},
	{"llama3-405b", Config{Layers: 126, Dim: 16384, FeedForward: 53248, Heads: 128, KVHeads: 8, Vocab: 128256, SeqLen: 8192, RopeTheta: 500_000}, 405_853_388_800},
	{"smollm2-135m", Config{Layers: 30, Dim: 576, FeedForward: 1536, Heads: 9, KVHeads: 3, Vocab: 49152, SeqLen: 2048, RopeTheta: 100_000, Tied: true}, 134_515_008},
}

// Named returns a published network by its name.
func Named(name string) (n Network, ok bool) {
	i := slices.IndexFunc(Published, func(n Network) bool { return n.Name == name })
	if i < 0 {
		return Network{}, false
	}
	return Published[i], true
}

package llama

import "slices"

// Network is a network whose weights have been published. Its SeqLen is the longest sequence that
// it was pretrained with.
type Network struct {
	Name   string
	Config Config
	Params int64 // as published: the test of the package has the sources
}

// Published lists published networks. Llama 3.1 has the sizes of Llama 3.
var Published = []Network{
	{"llama2-7b", llama2(32, 4096, 11008, 32, 32), 6_738_415_616},
	{"llama2-13b", llama2(40, 5120, 13824, 40, 40), 13_015_864_320},
	{"llama2-70b", llama2(80, 8192, 28672, 64, 8), 68_976_648_192},
	{"llama3-8b", llama3(32, 4096, 14336, 32), 8_030_261_248},
	{"llama3-70b", llama3(80, 8192, 28672, 64), 70_553_706_496},
	{"llama3-405b", llama3(126, 16384, 53248, 128), 405_853_388_800},
	{"smollm2-135m", Config{
		Layers: 30, Dim: 576, FeedForward: 1536, Heads: 9, KVHeads: 3, Vocab: 49152, SeqLen: 2048, RopeTheta: 100_000, Tied: true,
	}, 134_515_008},
}

func llama2(layers, dim, feedForward, heads, kvHeads int) Config {
	return Config{
		Layers: layers, Dim: dim, FeedForward: feedForward, Heads: heads, KVHeads: kvHeads, Vocab: 32_000, SeqLen: 4096,
	}
}

func llama3(layers, dim, feedForward, heads int) Config {
	return Config{
		Layers: layers, Dim: dim, FeedForward: feedForward, Heads: heads, KVHeads: 8, Vocab: 128_256, SeqLen: 8192,
		RopeTheta: 500_000,
	}
}

// Named returns a published network by its name.
func Named(name string) (n Network, ok bool) {
	i := slices.IndexFunc(Published, func(n Network) bool { return n.Name == name })
	if i < 0 {
		return Network{}, false
	}
	return Published[i], true
}

// Package safetensors reads tensors of float32 and bfloat16, and writes float32, in the safetensors
// format, version of 2023 (https://github.com/huggingface/safetensors#format):
//
//	8 bytes   N, little-endian: the header's length, at most 100,000,000
//	N bytes   header: a JSON object that starts with '{', then spaces
//	the rest  data: tensors one after another, row-major, little-endian
//
// The header has an entry for each tensor, and optionally metadata about the
// file:
//
//	{"__metadata__": {"key": "text", ...},
//	 "name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...}
//
// Offsets count from the start of the data. Tensors fill the data without a gap
// or an overlap, and no name occurs twice. A shape may be empty (one number) or
// contain a 0 (none).
//
// [Read] accepts exactly such files, as long as every tensor is float32 ("F32") or bfloat16 ("BF16"),
// as many published weights are, whose values are widened. It rejects other element types, fields
// that the format does not have, numbers that are not plain decimals and more than 64 dimensions. It
// does not look at the values: a NaN is valid.
package safetensors

// Tensor is a named array to be written by [Write].
type Tensor struct {
	Name  string
	Shape []int // each dimension at least 0; empty for a single number
	Data  []float32
}

// bytesOf are the sizes of an element of each type that is read.
var bytesOf = map[string]int64{dtype: elemBytes, "BF16": 2}

const (
	metadataKey = "__metadata__"
	dtype       = "F32" // as it is written
	elemBytes   = 4
	lengthBytes = 8
	maxHeader   = 100_000_000
	maxDims     = 64

	// part is the number of values that are read at a time.
	part = 1 << 14

	// chunk is the number of bytes converted between floats and bytes at a
	// time.
	chunk = 1 << 20
)

package trace

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"reflect"
	"slices"

	"gpipebench/nn"
	"gpipebench/nn/graph"
	"gpipebench/nn/graph/op"
)

// Fingerprint is gpipe.Pipeline.Fingerprint of layers. In are the types of the
// inputs, with a leading dimension of any size.
func Fingerprint(layers []nn.Layer, in []graph.Type) string {
	traced := Layers(layers, 0, nil, in, nil, false)
	f := traced.Function
	values := map[*graph.Node]string{}
	for i, n := range f.In {
		values[n] = hashOf("input", fmt.Sprint(i), n.DType.String())
	}
	var all []string
	for i, n := range f.Params {
		values[n] = hashOf("constant", n.Name)
		if p := traced.Params[i]; p.State || !p.Frozen {
			values[n] = hashOf("parameter", n.Name, p.Shape.String())
		}
		all = append(all, values[n])
	}
	slices.Sort(all) // another cut may list them in another order
	for _, c := range f.Graph.Calls {
		call := []string{c.Name(), attributes(c.Op)}
		for _, n := range c.In {
			call = append(call, values[n])
		}
		is := hashOf(call...)
		for i, n := range c.Out {
			values[n] = hashOf(is, fmt.Sprint(i))
			if c.Op == (op.Copy{}) { // inserted by a cut
				values[n] = values[c.In[0]]
			}
		}
	}
	for _, n := range f.Out {
		all = append(all, values[n])
	}
	return hashOf(all...)
}

// hashOf returns the SHA-256 of texts, none of which contains a byte 0.
func hashOf(texts ...string) string {
	h := sha256.New()
	for _, t := range texts {
		io.WriteString(h, t+"\x00")
	}
	return hex.EncodeToString(h.Sum(nil))
}

// attributes lists the fields of an operation that are not zero, so that a
// field added later changes the fingerprint only where it is used.
func attributes(o any) string {
	v := reflect.ValueOf(o)
	var text string
	for _, f := range reflect.VisibleFields(v.Type()) {
		if value := v.FieldByIndex(f.Index); !f.Anonymous && f.IsExported() && !value.IsZero() {
			text += fmt.Sprintf("%s=%v ", f.Name, value)
		}
	}
	return text
}

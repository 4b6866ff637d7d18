// Package plot draws what tables say.
//
// A plot is a heading, one legend and panels. The origin of a series' numbers (the paper,
// torchgpipe, theory, the model, measured) determines its colour in every plot, in the colours
// of Okabe and Ito; lines of few points also have different shapes. The paper's value is a
// line across the bars that are compared with it, panels that are compared have one scale, and
// whiskers are 95% intervals. Every text of an SVG states the width that it was laid out with
// (textLength), so that a reader without Liberation Sans sees another font in the same room.
// Every panel and sign of the legend is an element of its own, which the page arranges by its
// width.
package plot

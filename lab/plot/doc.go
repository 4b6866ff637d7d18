// Package plot draws what tables say.
//
// A plot is a heading, one legend and panels. The heading is a sentence that says what is seen, with
// figures computed from the tables (the finding of a spec), and what it is of, with the number of
// rounds or seeds. The origin of a series' numbers (the paper, torchgpipe, theory, the model,
// measured) determines its colour in every plot, in the colours of Okabe and Ito, and no other series
// has the paper's, the model's or that of measurements: a series has them if its name begins with
// paper, modelled or measured. Lines of few points also have different shapes. The paper's value is a
// line across the bars that are compared with it, panels that are compared have one scale, and
// whiskers are 95% intervals. Every text of an SVG states the width that it was laid out with
// (textLength), so that a reader without Liberation Sans sees another font in the same room.
// Every panel and sign of the legend is an element of its own, which the page arranges by its
// width.
package plot

/*
 * Times oneDNN's convolutions and matrix products on one thread, the yardstick of this project's.
 *
 *   c++ -O2 -o onednn onednn.cpp -ldnnl
 *
 * Reads a network's list of operations from its input, a line each, and an empty line:
 *
 *   conv TASK N H W C KH KW SH SW TOP BOTTOM LEFT RIGHT OH OW O
 *   product TASK M N K
 *
 * where TASK is forward, input or weight (the gradient of either). A product's forward is y (M, N) =
 * x (M, K) w; its gradients have the sizes of their own results: dx (M, N) from dy (M, K), and dw (M, N)
 * from x (K, M) and dy (K, N). Then it makes every operation in the layouts that it likes best itself,
 * with buffers of its own, compares some values of each different one with their definition, and writes
 * a line of JSON. For each further line of input it runs all operations once, in their order, and
 * writes a line with the seconds of each task. "reorder" is the time in which each weight takes the
 * layouts of its forward and of its input's gradient, and each gradient of a weight leaves its own.
 *
 * It is the direct algorithm, in float32: others (Winograd's) round otherwise.
 */
#include <dnnl.hpp>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

using namespace dnnl;
using tag = memory::format_tag;
using dims = memory::dims;

static engine cpu(engine::kind::cpu, 0);
static stream line_of_work(cpu);

static double now() {
	return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

static memory::desc any(const dims &d) { return memory::desc(d, memory::data_type::f32, tag::any); }

/* The layouts that both sides can name: channels last for images, as ours; rows for matrices. */
static memory::desc plain(const dims &d, bool weight) {
	tag t = d.size() == 2 ? tag::ab : weight ? tag::hwio : tag::nhwc;
	return memory::desc(d, memory::data_type::f32, t);
}

struct operation {
	std::string task;
	dims x, w, y, strides, before, after; /* of a product x is (rows, in), w (out, in) and y (rows, out) */
	primitive run;
	std::unordered_map<int, memory> args;
	memory in[2], out, moved[2]; /* moved: a weight, or a weight's gradient, and what it is reordered to */
	bool reorders = false;
};

static memory filled(const memory::desc &d) {
	memory m(d, cpu);
	float *x = static_cast<float *>(m.get_data_handle());
	for (size_t i = 0, n = d.get_size() / sizeof *x; i < n; i++) x[i] = (float)(i * 2654435761u % 1000) / 1000 - 0.5f;
	return m;
}

/* Writes the place's value everywhere that the definition reads, whatever the layout. */
static float value(size_t place) { return (float)(place * 2654435761u % 1000) / 1000 - 0.5f; }

static void settle(memory &m, const dims &d, bool weight) {
	memory flat(plain(d, weight), cpu);
	float *x = static_cast<float *>(flat.get_data_handle());
	size_t n = 1;
	for (auto one : d) n *= one;
	for (size_t i = 0; i < n; i++) x[i] = value(i);
	reorder(flat, m).execute(line_of_work, flat, m);
	line_of_work.wait();
}

template <class P> static void finish(operation &o, const P &made, memory::desc a, memory::desc b, memory::desc c, int ia, int ib, int ic) {
	o.run = primitive(made);
	o.in[0] = filled(a), o.in[1] = filled(b), o.out = filled(c);
	o.args = {{ia, o.in[0]}, {ib, o.in[1]}, {ic, o.out}};
}

static void make(operation &o) {
	bool image = o.x.size() == 4;
	auto x = any(o.x), w = any(o.w), y = any(o.y);
	if (image) {
		auto direct = algorithm::convolution_direct;
		convolution_forward::primitive_desc forward({prop_kind::forward_training, direct, x, w, y, o.strides, o.before, o.after}, cpu);
		if (o.task == "forward") {
			finish(o, forward, forward.src_desc(), forward.weights_desc(), forward.dst_desc(), DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST);
		} else if (o.task == "input") {
			convolution_backward_data::primitive_desc p({direct, x, w, y, o.strides, o.before, o.after}, cpu, forward);
			finish(o, p, p.diff_dst_desc(), p.weights_desc(), p.diff_src_desc(), DNNL_ARG_DIFF_DST, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_SRC);
		} else {
			convolution_backward_weights::primitive_desc p({direct, x, w, y, o.strides, o.before, o.after}, cpu, forward);
			finish(o, p, p.src_desc(), p.diff_dst_desc(), p.diff_weights_desc(), DNNL_ARG_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_WEIGHTS);
		}
	} else {
		inner_product_forward::primitive_desc forward({prop_kind::forward_training, x, w, y}, cpu);
		if (o.task == "forward") {
			finish(o, forward, forward.src_desc(), forward.weights_desc(), forward.dst_desc(), DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST);
		} else if (o.task == "input") {
			inner_product_backward_data::primitive_desc p({x, w, y}, cpu, forward);
			finish(o, p, p.diff_dst_desc(), p.weights_desc(), p.diff_src_desc(), DNNL_ARG_DIFF_DST, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_SRC);
		} else {
			inner_product_backward_weights::primitive_desc p({x, w, y}, cpu, forward);
			finish(o, p, p.src_desc(), p.diff_dst_desc(), p.diff_weights_desc(), DNNL_ARG_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_WEIGHTS);
		}
	}
	bool gradient = o.task == "weight";
	memory &own = gradient ? o.out : o.in[1];
	o.reorders = own.get_desc() != plain(o.w, true);
	if (o.reorders) {
		memory flat = filled(plain(o.w, true));
		o.moved[0] = gradient ? own : flat, o.moved[1] = gradient ? flat : own;
	}
}

/* Both readings of a shape: images as they are, a matrix as an image of one pixel for each row. */
struct sizes {
	int64_t n, h, w, c, kh, kw, sh, sw, top, left, oh, ow, o;
	bool image;
	explicit sizes(const operation &of) : image(of.x.size() == 4) {
		if (image)
			n = of.x[0], c = of.x[1], h = of.x[2], w = of.x[3], o = of.w[0], kh = of.w[2], kw = of.w[3], oh = of.y[2], ow = of.y[3],
			sh = of.strides[0], sw = of.strides[1], top = of.before[0], left = of.before[1];
		else
			n = of.x[0], c = of.x[1], o = of.w[0], h = w = kh = kw = oh = ow = sh = sw = 1, top = left = 0;
	}
	size_t at_x(int64_t e, int64_t i, int64_t j, int64_t k) const { return ((e * h + i) * w + j) * c + k; }
	size_t at_y(int64_t e, int64_t i, int64_t j, int64_t k) const { return ((e * oh + i) * ow + j) * o + k; }
	size_t at_w(int64_t i, int64_t j, int64_t k, int64_t l) const { return image ? ((i * kw + j) * c + k) * o + l : l * c + k; }
};

/* The largest difference of some values from their definition, over the sum of their terms' magnitudes. */
static double check(operation &o) {
	bool input = o.task == "input", gradient = o.task == "weight";
	settle(o.in[0], input ? o.y : o.x, false);
	settle(o.in[1], gradient ? o.y : o.w, !gradient);
	o.run.execute(line_of_work, o.args);
	const dims &shape = gradient ? o.w : input ? o.x : o.y;
	memory flat(plain(shape, gradient), cpu);
	reorder(o.out, flat).execute(line_of_work, o.out, flat);
	line_of_work.wait();
	const float *got = static_cast<float *>(flat.get_data_handle());
	sizes s(o);
	double worst = 0;
	for (int turn = 0; turn < 12; turn++) {
		auto some = [&](int64_t n) { return (int64_t)(turn == 0 ? 0 : turn == 1 ? n - 1 : rand() % n); };
		double sum = 0, magnitude = 0;
		size_t place;
		auto add = [&](size_t a, size_t b) {
			double term = (double)value(a) * value(b);
			sum += term, magnitude += std::fabs(term);
		};
		if (o.task == "forward") {
			int64_t e = some(s.n), i = some(s.oh), j = some(s.ow), l = some(s.o);
			place = s.at_y(e, i, j, l);
			for (int64_t a = 0; a < s.kh; a++)
				for (int64_t b = 0; b < s.kw; b++) {
					int64_t h = i * s.sh + a - s.top, w = j * s.sw + b - s.left;
					if (h >= 0 && h < s.h && w >= 0 && w < s.w)
						for (int64_t k = 0; k < s.c; k++) add(s.at_x(e, h, w, k), s.at_w(a, b, k, l));
				}
		} else if (input) {
			int64_t e = some(s.n), h = some(s.h), w = some(s.w), k = some(s.c);
			place = s.at_x(e, h, w, k);
			for (int64_t a = 0; a < s.kh; a++)
				for (int64_t b = 0; b < s.kw; b++) {
					int64_t i = h + s.top - a, j = w + s.left - b;
					if (i >= 0 && j >= 0 && i % s.sh == 0 && j % s.sw == 0 && i / s.sh < s.oh && j / s.sw < s.ow)
						for (int64_t l = 0; l < s.o; l++) add(s.at_y(e, i / s.sh, j / s.sw, l), s.at_w(a, b, k, l));
				}
		} else {
			int64_t a = some(s.kh), b = some(s.kw), k = some(s.c), l = some(s.o);
			place = s.at_w(a, b, k, l);
			for (int64_t e = 0; e < s.n; e++)
				for (int64_t i = 0; i < s.oh; i++)
					for (int64_t j = 0; j < s.ow; j++) {
						int64_t h = i * s.sh + a - s.top, w = j * s.sw + b - s.left;
						if (h >= 0 && h < s.h && w >= 0 && w < s.w) add(s.at_x(e, h, w, k), s.at_y(e, i, j, l));
					}
		}
		double difference = std::fabs(got[place] - sum) / std::fmax(magnitude, 1e-9);
		if (!(difference <= worst)) worst = difference; /* NaN stays */
	}
	return worst;
}

static bool parse(operation &o, const std::string &text) {
	std::istringstream in(text);
	std::string kind;
	in >> kind >> o.task;
	if (kind == "conv") {
		int64_t n, h, w, c, kh, kw, sh, sw, top, bottom, left, right, oh, ow, k;
		in >> n >> h >> w >> c >> kh >> kw >> sh >> sw >> top >> bottom >> left >> right >> oh >> ow >> k;
		o.x = {n, c, h, w}, o.w = {k, c, kh, kw}, o.y = {n, k, oh, ow};
		o.strides = {sh, sw}, o.before = {top, left}, o.after = {bottom, right};
	} else if (kind == "product") {
		int64_t m, n, k;
		in >> m >> n >> k;
		int64_t rows = o.task == "weight" ? k : m, from = o.task == "forward" ? k : o.task == "input" ? n : m;
		int64_t to = o.task == "forward" ? n : o.task == "input" ? k : n;
		o.x = {rows, from}, o.w = {to, from}, o.y = {rows, to};
	} else
		return false;
	return !in.fail() && (o.task == "forward" || o.task == "input" || o.task == "weight");
}

static int run() {
	std::vector<operation> all;
	std::map<std::string, bool> checked;
	double worst = 0;
	for (std::string text; std::getline(std::cin, text) && !text.empty();) {
		all.emplace_back();
		if (!parse(all.back(), text)) {
			std::cerr << "onednn: no operation: " << text << std::endl;
			return 2;
		}
		try {
			make(all.back());
		} catch (const dnnl::error &e) {
			std::cerr << "onednn: " << text << ": " << e.what() << std::endl;
			return 1;
		}
		if (!checked[text]) {
			double one = check(all.back());
			if (!(one <= 1e-4)) { /* a chain of n terms is off by 6e-8 times the root of n or more; a wrong term by its share */
				std::cerr << "onednn: " << text << " differs from its definition by " << one << std::endl;
				return 1;
			}
			worst = std::fmax(worst, one);
		}
		checked[text] = true;
	}
	const version_t *v = version();
	std::cout << "{\"version\":\"" << v->major << "." << v->minor << "." << v->patch << "\",\"operations\":" << all.size()
	          << ",\"different\":" << checked.size() << ",\"worst\":" << worst << "}" << std::endl;
	for (std::string text; std::getline(std::cin, text);) {
		std::map<std::string, double> seconds{{"forward", 0}, {"input", 0}, {"weight", 0}, {"reorder", 0}};
		for (auto &o : all) {
			double start = now();
			o.run.execute(line_of_work, o.args);
			line_of_work.wait();
			seconds[o.task] += now() - start;
		}
		for (auto &o : all)
			if (o.reorders) {
				reorder move(o.moved[0], o.moved[1]);
				double start = now();
				move.execute(line_of_work, o.moved[0], o.moved[1]);
				line_of_work.wait();
				seconds["reorder"] += now() - start;
			}
		std::cout << "{";
		for (auto &s : seconds) std::cout << (s.first == "forward" ? "" : ",") << "\"" << s.first << "\":" << s.second;
		std::cout << "}" << std::endl;
	}
	return 0;
}

int main() {
	try {
		return run();
	} catch (const dnnl::error &e) {
		std::cerr << "onednn: " << e.what() << std::endl;
		return 1;
	}
}

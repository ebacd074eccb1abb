// Text -> the arrays of a DNF, in one pass over chunks of any size.
// The text is never held: a chunk is read, its clauses are normalised in place and it is forgotten.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "text.hpp"
#include "weights.hpp"

namespace sharpdnf {

enum class Dialect { automatic, sharpdnf, mcc, pysdd };

class Parser {
  public:
    static constexpr int64_t kMaxVars = (int64_t{1} << 30) - 1;
    static constexpr size_t kMaxLine = 1 << 16;

    explicit Parser(Dialect dialect) : dialect_(dialect), asked_(dialect != Dialect::automatic) {}

    void feed(const char *p, const char *end) {
        bytes_ += end - p;
        while (p < end) {
            switch (mode_) {
                case Mode::line_start:
                    p = start_line(p, end);
                    break;
                case Mode::literals:
                    p = read_literals(p, end);
                    break;
                case Mode::directive:
                    p = collect_line(p, end);
                    break;
                case Mode::skip:
                    p = skip_line(p, end);
                    break;
            }
        }
    }

    void finish() {
        const char newline = '\n';  // a missing one at the end is no error
        feed(&newline, &newline + 1);
        --line;
        if (!header_line_) fail("expected a header 'p dnf VARIABLES CLAUSES', found the end of the text");
        if (open_) {
            line = clause_line_;
            fail("the clause that begins here never ends: expected a closing 0");
        }
        if (clauses_seen_ != announced_clauses_) {
            line = header_line_;
            fail("the header announces " + std::to_string(announced_clauses_) + " clauses, but there are " +
                 std::to_string(clauses_seen_));
        }
        const int64_t most = std::max(kFreeVars, 8 * bytes_);
        if (num_vars > most) {
            line = header_line_;
            fail("the header announces " + std::to_string(num_vars) + " variables: expected at most " +
                 std::to_string(most) + " in a text of " + std::to_string(bytes_) + " bytes");
        }
        settle_weights();
    }

    int64_t line = 1;
    int64_t num_vars = 0;
    std::vector<int64_t> indptr{0};
    std::vector<int32_t> literals;
    SparseDoubles prob;  // settled by finish()
    double log_scale = 0.0;
    int64_t repeated_literals = 0, impossible_clauses = 0;
    int64_t rounded_vars = 0;  // variables whose tiny weight of "false" loses digits, as only p is kept
    std::vector<std::pair<int64_t, std::string>> names;

  private:
    enum class Mode { line_start, literals, directive, skip };
    enum class Weights { none, pepin, competition, pysdd };
    static constexpr int64_t kFreeVars = 10'000'000;  // a text may announce this many variables however short it is

    [[noreturn]] static void fail(std::string message) { throw ParseFailure{std::move(message)}; }

    static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

    const char *start_line(const char *p, const char *end) {
        while (p < end && is_blank(*p)) ++p;
        if (p == end) return p;
        const char c = *p;
        if (c == '\n') {
            ++line;
            return p + 1;
        }
        if ((c >= '0' && c <= '9') || c == '-') {
            if (!header_line_) fail("expected a header 'p dnf VARIABLES CLAUSES' before the first clause");
            mode_ = Mode::literals;
            closed_ = false;
            return p;
        }
        if (c != 'c' && c != 'p' && c != 'w')
            fail("expected a clause, a header, a weight or a comment, not " + Token{p, p + 1}.quoted());
        if (open_ && c != 'c')
            fail("the clause that begins on line " + std::to_string(clause_line_) +
                 " is still open: expected a closing 0");
        mode_ = Mode::directive;
        return p;
    }

    // The literals of a line in plain form (up to 7 digits, one separator), while 16 bytes are left to load. Leaves at
    // the first byte that is anything else, or after the newline.
    const char *read_plain_literals(const char *p, const char *end) {
        while (end - p >= 16) {
            const bool negative = *p == '-';
            uint64_t value = 0;
            const int digits = leading_number(p + negative, value);
            if (digits == 0) return p;
            const char separator = p[negative + digits];
            if (separator != ' ' && separator != '\n') return p;
            take_literal(value, negative);
            p += negative + digits + 1;
            if (separator == '\n') {
                ++line;
                mode_ = Mode::line_start;
                return p;
            }
        }
        return p;
    }

    const char *read_literals(const char *p, const char *end) {
        if (digits_ == 0 && !negative_) {
            p = read_plain_literals(p, end);
            if (mode_ == Mode::line_start) return p;
        }
        uint64_t value = value_;
        int digits = digits_;
        bool negative = negative_;
        for (; p < end; ++p) {
            const char c = *p;
            const unsigned digit = static_cast<unsigned char>(c) - unsigned{'0'};
            if (digit < 10) {
                value = 10 * value + digit;
                if (++digits > 18) fail("expected a literal, not a number of more than 18 digits");
            } else if (c == '\n' || is_blank(c)) {
                if (digits > 0) {
                    take_literal(value, negative);
                } else if (negative) {
                    fail("expected digits after '-'");
                }
                value = 0;
                digits = 0;
                negative = false;
                if (c == '\n') {
                    ++line;
                    mode_ = Mode::line_start;
                    ++p;
                    break;
                }
            } else if (c == '-' && digits == 0 && !negative) {
                negative = true;
            } else {
                fail("expected a literal, not " + Token{p, p + 1}.quoted() + " inside a clause");
            }
        }
        value_ = value;
        digits_ = digits;
        negative_ = negative;
        return p;
    }

    void take_literal(uint64_t value, bool negative) {
        if (closed_) fail("literal 0 inside a clause: expected the end of the line after the closing 0");
        if (value == 0) {
            if (negative) fail("expected a literal or a closing 0, not '-0'");
            close_clause();
            return;
        }
        if (value > static_cast<uint64_t>(num_vars))
            fail("variable " + std::to_string(value) + " is beyond the " + std::to_string(num_vars) +
                 " variables of the header");
        if (!open_) {
            open_ = true;
            clause_line_ = line;
        }
        const auto literal = static_cast<int32_t>(2 * (value - 1) + (negative ? 1 : 0));
        sorted_ &= (literal >> 1) > last_variable_;
        last_variable_ = literal >> 1;
        literals.push_back(literal);
    }

    // Sorts the clause by variable, merges repeats, drops it if it holds a literal and its negation.
    void close_clause() {
        if (clauses_seen_ == announced_clauses_)
            fail("one clause more than the " + std::to_string(announced_clauses_) + " of the header");
        ++clauses_seen_;
        bool impossible = false;
        if (!sorted_) {
            const auto first = literals.begin() + indptr.back();
            std::sort(first, literals.end());
            const auto kept = std::unique(first, literals.end());
            repeated_literals += literals.end() - kept;
            literals.erase(kept, literals.end());
            const auto clash =
                std::adjacent_find(first, literals.end(), [](int32_t a, int32_t b) { return (a >> 1) == (b >> 1); });
            impossible = clash != literals.end();
        }
        if (impossible) {
            ++impossible_clauses;
            literals.resize(static_cast<size_t>(indptr.back()));
        } else {
            indptr.push_back(static_cast<int64_t>(literals.size()));
        }
        open_ = false;
        closed_ = true;
        sorted_ = true;
        last_variable_ = -1;
    }

    const char *skip_line(const char *p, const char *end) {
        const auto *newline = static_cast<const char *>(std::memchr(p, '\n', end - p));
        if (newline == nullptr) return end;
        ++line;
        mode_ = Mode::line_start;
        return newline + 1;
    }

    // Lines that begin with c, p or w are short: they are taken whole, from the chunk itself where they do not span
    // two.
    const char *collect_line(const char *p, const char *end) {
        const auto *newline = static_cast<const char *>(std::memchr(p, '\n', end - p));
        if (newline != nullptr && text_.empty()) {
            take_directive(p, newline);
        } else {
            text_.append(p, newline != nullptr ? newline : end);
            if (newline == nullptr) {
                if (text_.size() > kMaxLine && long_comment(text_.data(), text_.data() + text_.size())) {
                    text_.clear();
                    text_.shrink_to_fit();
                    mode_ = Mode::skip;
                }
                return end;
            }
            take_directive(text_.data(), text_.data() + text_.size());
            text_.clear();
        }
        ++line;
        mode_ = Mode::line_start;
        return newline + 1;
    }

    // A comment may be of any length, and is skipped; only weights in the style of PySDD are kept however long they
    // are.
    bool long_comment(const char *p, const char *end) {
        split(p, end);
        const bool competition = tokens_.size() >= 3 && tokens_[1].is("p") && tokens_[2].is("weight");
        if (*p != 'c' || competition) fail("expected a line of at most " + std::to_string(kMaxLine) + " bytes");
        return !(dialect_ == Dialect::pysdd && tokens_.size() >= 2 && tokens_[1].is("weights"));
    }

    // The next word of the line, empty at its end.
    static Token next_token(const char *&p, const char *end) {
        while (p < end && is_blank(*p)) ++p;
        const char *first = p;
        while (p < end && !is_blank(*p)) ++p;
        return {first, p};
    }

    // The first words of the line: one more than any directive has.
    void split(const char *p, const char *end) {
        tokens_.clear();
        while (tokens_.size() < 7) {
            const Token token = next_token(p, end);
            if (token.first == token.last) return;
            tokens_.push_back(token);
        }
    }

    void take_directive(const char *p, const char *end) {
        if (static_cast<size_t>(end - p) > kMaxLine && long_comment(p, end)) return;
        if (*p == 'c') {
            if (end - p >= 4 && is_blank(p[1])) take_comment(p, end);
            return;
        }
        split(p, end);
        if (tokens_[0].is("p")) return take_header();
        if (tokens_[0].is("w")) return take_pepin_weight();
        fail("expected a clause, a header, a weight or a comment, not " + tokens_[0].quoted());
    }

    void take_header() {
        if (header_line_) fail("a second header: the first is on line " + std::to_string(header_line_));
        const bool pysdd = dialect_ == Dialect::pysdd;
        const std::string form = pysdd ? "'p cnf VARIABLES CLAUSES'" : "'p dnf VARIABLES CLAUSES'";
        if (tokens_.size() >= 2 && tokens_[1].is("cnf") && !pysdd)
            fail("the header says cnf: expected " + form +
                 "; a DNF under a cnf header is PySDD's dialect, which must be asked for (dialect \"pysdd\")");
        if (tokens_.size() != 4 || !tokens_[1].is(pysdd ? "cnf" : "dnf")) fail("expected the header " + form);
        int64_t n = 0, m = 0;
        for (const int i : {2, 3})
            if (!parse_integer(tokens_[i], i == 2 ? n : m) || (i == 2 ? n : m) < 0)
                fail("expected the header " + form + ", not the number " + tokens_[i].quoted());
        if (n > kMaxVars)
            fail("the header announces " + tokens_[2].quoted() + " variables: expected at most " +
                 std::to_string(kMaxVars));
        num_vars = n;
        announced_clauses_ = m;
        header_line_ = line;
        if (!early_weights_.empty()) {
            std::swap(line, early_line_);
            take_pysdd_weights(early_weights_.data(), early_weights_.data() + early_weights_.size());
            std::swap(line, early_line_);
        }
    }

    int64_t take_variable(const Token &token, bool signed_literal) {
        int64_t literal = 0;
        const char *wanted = signed_literal ? "literal" : "variable";
        if (!header_line_) fail("expected a header 'p dnf VARIABLES CLAUSES' before the first weight or name");
        if (!parse_integer(token, literal) || literal == 0 || (literal < 0 && !signed_literal))
            fail(std::string("expected a ") + wanted + ", not " + token.quoted());
        if (literal > num_vars || literal < -num_vars)
            fail("variable " + token.quoted() + " is beyond the " + std::to_string(num_vars) +
                 " variables of the header");
        return literal;
    }

    void use_weights(Weights kind, Dialect dialect) {
        if (weights_ != Weights::none && weights_ != kind)
            fail("two kinds of weights in one text ('w', 'c p weight' or 'c weights'): expected one of them");
        if (asked_ && dialect_ != dialect)
            fail(std::string("weights of another dialect than the one asked for: expected ") +
                 (dialect_ == Dialect::sharpdnf ? "'w VARIABLE PROBABILITY'"
                  : dialect_ == Dialect::mcc    ? "'c p weight LITERAL WEIGHT 0'"
                                                : "'c weights W1 W-1 W2 W-2 ...'"));
        if (dialect_ == Dialect::mcc && dialect == Dialect::sharpdnf)
            fail("'w' weights in a text that declares itself a competition instance: expected 'c p weight'");
        weights_ = kind;
        dialect_ = dialect;
    }

    void declare(SparseDoubles &weights, int64_t variable, double weight, const Token &literal) {
        weights.allocate(num_vars);
        const double before = weights.get(variable - 1);
        if (!std::isnan(before) && before != weight) fail("a second, different weight for " + literal.quoted());
        weights.set(variable - 1, weight);
    }

    void take_pepin_weight() {
        if (tokens_.size() != 3) fail("expected 'w VARIABLE PROBABILITY'");
        const int64_t variable = take_variable(tokens_[1], false);
        const double p = parse_number(tokens_[2]);
        if (!(p >= 0.0 && p <= 1.0))
            fail("expected a probability in [0, 1], a decimal or a fraction that a double can hold, not " +
                 tokens_[2].quoted());
        // The complement of a probability that rounds to 1 would be lost.
        const bool plain = std::none_of(tokens_[2].first, tokens_[2].last, [](char c) { return c == 'e' || c == 'E'; });
        if (p == 1.0 && plain && (*tokens_[2].first == '0' || *tokens_[2].first == '.'))
            fail("expected a probability that a double can tell from 1, not " + tokens_[2].quoted());
        use_weights(Weights::pepin, Dialect::sharpdnf);
        declare(prob, variable, p, tokens_[1]);
    }

    double take_weight(const Token &token) {
        const double w = parse_number(token);
        if (!(w >= 0.0))
            fail("expected a weight of 0 or more, a decimal or a fraction that a double can hold, not " +
                 token.quoted());
        return w;
    }

    void take_competition_weight() {
        if (tokens_.size() != 6 || !tokens_[5].is("0")) fail("expected 'c p weight LITERAL WEIGHT 0'");
        const int64_t literal = take_variable(tokens_[3], true);
        const double w = take_weight(tokens_[4]);
        use_weights(Weights::competition, Dialect::mcc);
        const int64_t variable = literal > 0 ? literal : -literal;
        declare(literal > 0 ? prob : negative_weight_, variable, w, tokens_[3]);
        const double positive = prob.get(variable - 1), negative = negative_weight_.get(variable - 1);
        lone_.erase(variable);
        if (!std::isnan(positive) && !std::isnan(negative)) {
            check_pair(variable, positive, negative);
        } else if ((w > 1.0 || w < 0x1p-50) && lone_.size() < 1000) {
            lone_[variable] = line;  // 1 - w is not a weight, so the other sign must be declared too: the line is kept
                                     // for the error message
        }
    }

    void take_pysdd_weights(const char *p, const char *end) {
        if (!header_line_) {  // the line may come first; it is read once the number of variables is known
            if (!early_weights_.empty()) fail("a second line 'c weights'");
            early_weights_.assign(p, end);
            early_line_ = line;
            return;
        }
        use_weights(Weights::pysdd, Dialect::pysdd);
        for (int skipped = 0; skipped < 2; ++skipped) next_token(p, end);
        for (int64_t i = 0; i < 2 * num_vars; ++i) {
            const Token token = next_token(p, end);
            if (token.first == token.last)
                fail("expected two weights for each of the " + std::to_string(num_vars) + " variables, not " +
                     std::to_string(i) + " numbers");
            declare(i % 2 ? negative_weight_ : prob, i / 2 + 1, take_weight(token), token);
            if (i % 2) check_pair(i / 2 + 1, prob.get(i / 2), negative_weight_.get(i / 2));
        }
        const Token rest = next_token(p, end);
        if (rest.first != rest.last)
            fail("expected the end of the line after two weights for each variable, not " + rest.quoted());
    }

    void take_comment(const char *p, const char *end) {
        split(p, end);
        const size_t size = tokens_.size();
        if (size < 3) return;
        const Token &word = tokens_[1], &next = tokens_[2];
        if (word.is("p") && next.is("weight")) return take_competition_weight();
        if ((word.is("p") && next.is("show")) || (word.is("t") && (next.is("pmc") || next.is("pwmc"))))
            fail("projected counting is not supported: expected a formula whose variables all count");
        if (word.is("t") && (next.is("mc") || next.is("wmc"))) {
            if (weights_ == Weights::pepin || (asked_ && dialect_ != Dialect::mcc))
                fail("'c t " + std::string(next.first, next.last) +
                     "' declares a competition instance, which the weights or the dialect contradict");
            dialect_ = Dialect::mcc;
        } else if (word.is("weights") && !std::isnan(parse_number(next))) {
            if (dialect_ != Dialect::pysdd)
                fail("'c weights' is PySDD's way to give weights: expected 'w VARIABLE PROBABILITY' or 'c p weight'");
            take_pysdd_weights(p, end);
        } else if (word.is("log_scale") && size == 3) {
            take_log_scale(next);
        } else if (word.is("var") && size == 4 && *next.first >= '0' && *next.first <= '9') {
            names.emplace_back(take_variable(next, false), std::string(tokens_[3].first, tokens_[3].last));
        }
    }

    void take_log_scale(const Token &token) {
        const bool minus = *token.first == '-';
        const double size = parse_number({token.first + (minus ? 1 : 0), token.last});
        if (std::isnan(size)) fail("expected 'c log_scale NUMBER', not " + token.quoted());
        const double value = minus ? -size : size;
        if (has_log_scale_ && value != log_scale) fail("a second, different log_scale");
        if (asked_ && dialect_ != Dialect::sharpdnf)
            fail("'c log_scale' in another dialect: its weights carry the scale");
        log_scale = value;
        has_log_scale_ = true;
    }

    // (w+, w-) -> p = w+ / (w+ + w-) and the product of the sums. Model counting competition: a missing polarity is
    // 1 - w, two missing ones are 1 and 1. Pepin: a missing probability is 1/2.
    void settle_weights() {
        prob.allocate(num_vars);
        if (dialect_ == Dialect::mcc || dialect_ == Dialect::pysdd) {
            if (has_log_scale_) fail("'c log_scale' beside competition weights: expected one of them");
            ScaleProduct scale;
            for (int64_t v = 0; v < num_vars; ++v) settle_pair(v, scale);
            log_scale = scale.log();
            negative_weight_.clear();
            return;
        }
        for (int64_t v = 0; v < num_vars; ++v) {
            const double p = prob.get(v);
            prob.settle(v, std::isnan(p) ? 0.5 : p);
        }
    }

    void settle_pair(int64_t v, ScaleProduct &scale) {
        double positive = prob.get(v), negative = negative_weight_.get(v);
        const bool no_positive = std::isnan(positive), no_negative = std::isnan(negative);
        if (no_positive && no_negative)
            positive = negative = 1.0;
        else if (no_positive)
            positive = 1.0 - negative;
        else if (no_negative)
            negative = 1.0 - positive;
        if (no_positive != no_negative) {
            const auto lone = lone_.find(v + 1);
            if (lone != lone_.end()) line = lone->second;
        }
        const double sum = check_pair(v + 1, positive, negative);
        const double p = positive / sum, wanted = negative / sum;
        if (std::abs(1.0 - p - wanted) > 1e-6 * wanted) ++rounded_vars;
        scale.multiply(sum);
        prob.settle(v, p);
    }

    Dialect dialect_;
    const bool asked_;
    Mode mode_ = Mode::line_start;
    Weights weights_ = Weights::none;
    int64_t bytes_ = 0, header_line_ = 0, announced_clauses_ = 0, clauses_seen_ = 0;
    uint64_t value_ = 0;  // the number that the end of a chunk may cut
    int digits_ = 0;
    bool negative_ = false;
    bool open_ = false, closed_ = false, sorted_ = true, has_log_scale_ = false;
    int64_t clause_line_ = 0;
    int32_t last_variable_ = -1;
    SparseDoubles negative_weight_;
    std::map<int64_t, int64_t>
        lone_;  // variable -> line of its only weight so far, where 1 - w cannot be the other one
    std::vector<Token> tokens_;
    std::string text_, early_weights_;
    int64_t early_line_ = 0;
};

}  // namespace sharpdnf

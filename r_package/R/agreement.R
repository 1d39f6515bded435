#' Inter-coder agreement
#'
#' @description
#' Computes coefficients of agreement between the codes of several people or models for the same
#' units, with confidence intervals. Codes may be missing.
#'
#' @section Coefficients to report:
#' Report `alpha` with its interval, for any number of coders and any scale. Also report `kappa` if
#' reviewers expect it, and `ac1` if one label is much more frequent than all others, because alpha
#' and kappa are then low even if the coders agree well. `percent` alone is not informative: if
#' there are two labels and 95% of the units have the same label, coders who guess with these
#' frequencies agree on 90% of the units.
#'
#' @section Computation:
#' * `percent`: share of the pairs of codes of a unit that are equal, averaged over units. Interval:
#'   Wilson, corrected for whole numbers (Newcombe 1998).
#' * `kappa`, two coders: Cohen's \eqn{(p_o - p_e) / (1 - p_e)}. For ordered scales also
#'   `linear kappa` and `quadratic kappa`, which weight a disagreement by the distance between the
#'   two labels or by the square of this distance. Standard error: Fleiss, Cohen and Everitt (1969).
#' * `alpha`: Krippendorff's \eqn{1 - D_o / D_e}. The columns `observed` and `expected` contain
#'   disagreements.
#' * `ac1`: Gwet (2008), with his standard error.
#'
#' Intervals of `kappa`, `alpha` and `ac1` follow one rule: a t interval by the influences of the
#' units that allows for skewness and, with few disagreements, for one that was not seen. They
#' have a width if all coders agree, too.
#'
#' A coefficient is NA if it is undefined: for example, if all codes are equal, the formulas divide
#' by 0, because no disagreement is expected by chance.
#'
#' @param ... Codes: a coded [gold_sample()]; a data frame or matrix with one column per coder; or
#'   one vector per coder. Codes can be factors, text or numbers; NA, blank text and `"NA"` are
#'   missing codes. Numbers and logical values are compared by their text, so that 1 equals `"1"`;
#'   texts that differ only in case or spaces cause an error, unless both are among the levels, as
#'   do columns of identifiers, columns of the same name, infinite numbers, and codes that no other
#'   coder uses. If the texts of a sample may have several labels, two coders agree on a text if
#'   they gave it the same set of labels, or if neither gave it a label; [validate()] computes the
#'   agreement on each label.
#' @param scale Scale of measurement, which defines distances between codes: `"nominal"`,
#'   `"ordinal"`, `"interval"` or `"ratio"`. NULL uses `"ordinal"` for ordered factors, ordinal
#'   codebooks and samples with ordered labels, and `"nominal"` otherwise.
#' @param levels All labels in order. NULL uses the levels of factors, or the labels that occur. If
#'   the codes are text, `scale = "ordinal"` requires `levels`.
#' @param weights Weight of each unit, such as 1 / inclusion probability. NULL uses the inverse
#'   inclusion probabilities of a gold sample, as [validate()] does, and equal weights otherwise.
#' @param kappa_weights Weights of disagreements between two coders, for the row `weighted kappa`.
#'   A vector has the weight of each distance between two labels in their order, starting with
#'   distance 0: `c(0, 1, 4)` for three labels. A matrix has the weight of each pair of labels.
#' @param level Confidence level.
#' @returns A `llamaherd_agreement`: a data frame with one row per coefficient and the columns
#'   `coefficient`, `value`, `low`, `high`, `se` (standard error; NA if the interval is not computed
#'   from a standard error), `observed`, `expected`, `n_units` (units with at least two codes) and
#'   `n_coders`.
#' @references
#' Cohen (1960), Educational and Psychological Measurement 20; Cohen (1968), Psychological Bulletin
#' 70; Fleiss, Cohen, Everitt (1969), Psychological Bulletin 72; Gwet (2008), British Journal of
#' Mathematical and Statistical Psychology 61; Krippendorff (2011), Computing Krippendorff's
#' Alpha-Reliability; Zapf, Castell, Morawietz, Karch (2016), BMC Medical Research Methodology
#' 16:93.
#' @seealso [validate()] for a model's labels and human codes
#' @concept Cohen's kappa
#' @concept Krippendorff's alpha
#' @concept intercoder reliability
#' @export
#' @examplesIf llamaherd_available()
#' codes <- data.frame(
#'   ann = c("pro", "con", "con", NA, "pro", "con"),
#'   bob = c("pro", "con", "pro", "con", "pro", "con"),
#'   eve = c("pro", "con", "con", "con", NA, "con")
#' )
#' agreement(codes)
#' agreement(codes$ann, codes$bob)
#'
#' # From 1 to 5: 4 and 5 are nearer to each other than 1 and 5.
#' agreement(c(1, 2, 5, 4, 2), c(1, 3, 4, 4, 2), scale = "ordinal", levels = 1:5)
agreement <- function(
  ...,
  scale = NULL,
  levels = NULL,
  weights = NULL,
  kappa_weights = NULL,
  level = 0.95
) {
  codes <- list(...)
  check_removed(codes[names(codes) %in% names(removed_bootstrap)], removed_bootstrap)
  known <- list()
  if (length(codes) == 1 && inherits(codes[[1]], "llamaherd_gold")) {
    gold <- codes[[1]]
    codes <- list(new_frame(comparable_codes(gold), length(gold$ids)))
    scale <- scale %||% gold$design$scale
    weights <- weights %||% (1 / gold$probs)
    known <- if (!isTRUE(gold$design$several)) list(as_py_list(gold$names))
  }
  coders <- coder_columns(codes)
  options <- py_arguments(
    "level",
    scale = py_value(scale) %||% scale_of(coders),
    levels = check_levels(levels),
    known = c(known, known_levels(coders)),
    weights = if (!is.null(weights)) as_py_list(check_numeric(weights, "weights")),
    kappa_weights = kappa_weights_list(kappa_weights),
    coders = as_py_list(as_utf8(rlang::names2(coders)))
  )
  names <- rlang::names2(coders)
  names <- ifelse(nzchar(names), names, sprintf("coder %d", seq_along(names)))
  codes <- unname(Map(as_codes, coders, names))
  call_python("agreement", list(codes = codes, options = options))
}

# Returns the codes of a sample. If texts may have several labels, the code "" means that no label
# applies; a text stands for it, because agreement() takes blank codes as missing.
comparable_codes <- function(gold) {
  if (!isTRUE(gold$design$several)) {
    return(gold$codes)
  }
  none <- "(none)"
  while (none %in% gold$names) {
    none <- sprintf("(%s)", none)
  }
  lapply(gold$codes, \(codes) replace(codes, codes %in% "", none))
}

# Returns all codes as one list of vectors: the columns of data frames and matrices, and the given
# vectors.
coder_columns <- function(dots) {
  columns <- unlist(
    lapply(dots, \(x) {
      if (is_count_table(x)) {
        hint <- "Pass the codes themselves: agreement(first, second)."
        abort_argument("...", "codes, not a table of their counts", x, hint = hint)
      }
      if (is.matrix(x)) {
        return(rlang::set_names(as.list(as.data.frame(x)), colnames(x)))
      }
      if (is.data.frame(x)) as.list(x) else list(x)
    }),
    recursive = FALSE
  )
  good <- vapply(columns, \(x) is.atomic(x) && !is.null(x), logical(1))
  must <- "a data frame or a matrix, vectors of codes, or only a coded gold sample"
  if (!all(good)) {
    abort_argument("...", must, columns[[which(!good)[[1]]]])
  }
  if (any(vapply(dots, inherits, NA, "llamaherd_coded"))) {
    hint <- "validate() compares a model's labels with the codes of people."
    abort_argument("...", must, dots[[1]], hint = hint)
  }
  n <- unique(lengths(columns))
  if (length(columns) < 2 || length(n) > 1) {
    abort(c(
      "`...` must contain codes of at least two coders, with the same number of units for each.",
      x = "Coders: {length(columns)}. Units of each coder: {toString(lengths(columns))}."
    ))
  }
  columns
}

# TRUE for counts of pairs of codes: table(first, second), or a matrix with equal names of rows and
# columns.
is_count_table <- function(x) {
  is_square <- is.matrix(x) && is.numeric(x) && !is.null(rownames(x))
  inherits(x, c("table", "ftable")) || (is_square && identical(rownames(x), colnames(x)))
}

# Converts codes for Python: NA becomes None; numbers, also numbers with haven's labels, remain
# numbers; everything else becomes text. Python decides which codes are equal.
as_codes <- function(x, column = NULL) {
  x <- plain_integers(x)
  missing <- is.na(x)
  if (inherits(x, "haven_labelled")) {
    tell_value_labels(x, column)
    x <- as.vector(unclass(x))
  }
  if (!is.numeric(x) || is.object(x)) {
    x <- as_utf8(as.character(x))
    warn_invalid_values(sum(is.na(x) & !missing), length(x), column)
  } else if (is.double(x) && all(missing | (x == trunc(x) & abs(x) < 2^31))) {
    x <- as.integer(x)
  }
  codes <- as_py_list(as.vector(x))
  codes[missing | is.na(x)] <- list(NULL)
  codes
}

# Says that values are used if each of them has a label of package haven.
tell_value_labels <- function(x, column) {
  if (all(is.na(x) | x %in% attr(x, "labels"))) {
    name <- if (is.null(column)) "a column" else cli::format_inline("{.field {column}}")
    cli::cli_inform(
      c(
        i = "The values of {name} are used, not their value labels: {.fn haven::as_factor}
             converts them."
      ),
      class = "llamaherd_message_labelled"
    )
  }
}

# Warns of values that are not valid text, because they count as missing.
warn_invalid_values <- function(n_bad, n, column = NULL) {
  if (n_bad > 0) {
    name <- if (is.null(column)) {
      "a column"
    } else {
      cli::format_inline("the column {.field {column}}")
    }
    warn(
      c(
        "{n_bad} of {n} value{?s} of {name} {cli::qty(n_bad)}{?is/are} not valid text, and
         {?counts/count} as NA.",
        i = "{invalid_text_hint}"
      ),
      "text"
    )
  }
}

scale_of <- function(columns) {
  if (any(vapply(columns, is.ordered, NA))) "ordinal" else "nominal"
}

# Returns all labels in their order, as a list; NULL means the labels that occur in the codes.
check_levels <- function(levels, arg = "levels") {
  if (is.null(levels)) {
    return(NULL)
  }
  if (is.factor(levels)) {
    levels <- base::levels(levels)
  }
  if (!is.atomic(levels) || anyNA(levels) || anyDuplicated(levels)) {
    abort_argument(arg, "different labels, in their order", levels)
  }
  as_codes(levels)
}

# Returns the levels of each factor, ordered factors first.
known_levels <- function(columns) {
  factors <- Filter(is.factor, columns)
  factors <- factors[order(!vapply(factors, is.ordered, logical(1)))]
  unname(lapply(factors, \(x) as_py_list(as_utf8(levels(x)))))
}

# Converts a vector to a list, a matrix to a list of rows.
kappa_weights_list <- function(x) {
  if (is.null(x)) {
    return(NULL)
  }
  if (!is.numeric(x) || anyNA(x)) {
    must <- "numbers by distance, or a matrix of them"
    abort_argument("kappa_weights", must, x)
  }
  if (is.matrix(x)) rows_of(x) else as_py_list(as.double(x))
}

check_numeric <- function(x, arg = rlang::caller_arg(x)) {
  if (!is.numeric(x)) {
    abort_argument(arg, "a vector of numbers", x)
  }
  x[is.na(x)] <- NaN # Python raises a floating-point flag when it computes with R's NA
  as.double(x)
}

#' Estimate the right codes where coders disagree
#'
#' @description
#' Estimates, from codes of at least three coders, the right label of each text and the error rates
#' of each coder. The method is the model of Dawid and Skene: each coder has a matrix of error
#' rates, and labels and matrices are estimated together by expectation maximization.
#'
#' Coders' errors must be independent given the right label. Texts that are hard for everybody
#' violate this assumption; the estimated accuracy of coders is then too high.
#'
#' @param gold A `llamaherd_gold` with codes of at least three coders, and at least 20 texts with
#'   two or more codes. A coder need not code every text.
#' @param ... Must be empty. `one_coin` is gone: each coder has a matrix of error rates.
#' @returns A `llamaherd_dawid_skene`, a list with
#'
#'   * `labels`: a data frame with one row per coded text: `id`; `label`, the most probable label;
#'     and the probability of each label in `p_<label>`.
#'   * `accuracy`: the estimated share of right codes of each coder.
#'   * `shares`: the unweighted share of each label among the coded texts.
#'   * `errors`: for each coder a matrix with a row for each right label and a column for each code.
#' @references Dawid, Skene, *Maximum Likelihood Estimation of Observer Error-Rates Using the EM
#'   Algorithm*, Applied Statistics 28, 1979.
#' @seealso [estimate()], [agreement()]
#' @concept error rates of coders
#' @export
#' @examplesIf llamaherd::llamaherd_available()
#' set.seed(1)
#' data <- data.frame(id = 1:200, label = sample(c("for", "against"), 200, TRUE))
#' gold <- gold_sample(data, 100, label = label, id = id, seed = 1)
#' truth <- data$label[gold$rows]
#' flip <- function(rate) {
#'   wrong <- runif(100) < rate
#'   ifelse(wrong, ifelse(truth == "for", "against", "for"), truth)
#' }
#' codes <- data.frame(id = gold$ids, ann = flip(0.05), ben = flip(0.2), cy = flip(0.2))
#' gold <- read_gold(codes, gold)
#' dawid_skene(gold)$accuracy
dawid_skene <- function(gold, ...) {
  check_removed(
    rlang::enquos(...),
    c(one_coin = "Each coder has a matrix of error rates.")
  )
  call_python("dawid_skene", list(gold = gold_for_python(gold)))
}

# Formats shares and coefficients: only an exact 0 or 1 is shown as 0 or 1, as in Python's
# core/decimals.py. 499 of 500 is 0.998, not 1.00, and 1 of 500 is 0.002, not 0.00.

# A distance from 0, 1 and -1 below this is a rounding error.
share_rounding <- 1e-9
most_decimals <- 9L

# Returns numbers with `digits` decimals, or with more if they would look like 0, 1 or -1.
decimals <- function(x, digits = 2L) {
  vapply(x, one_decimal, "", digits = digits, USE.NAMES = FALSE)
}

# Returns shares in percent with `digits` decimals, or with more, such as "99.95%".
percents <- function(x, digits = 1L) {
  one <- \(share) {
    more <- enough_decimals(share, digits, whole = 100)
    if (is.na(share)) "NA" else paste0(with_decimals(100 * share, more), "%")
  }
  vapply(x, one, "", USE.NAMES = FALSE)
}

# Returns intervals, such as "[0.93, 0.98]".
limits_text <- function(low, high, digits = 2L) {
  sprintf("[%s, %s]", decimals(low, digits), decimals(high, digits))
}

one_decimal <- function(x, digits) {
  if (is.na(x)) {
    return("NA")
  }
  with_decimals(x, enough_decimals(x, digits))
}

# Returns the number of decimals with which `whole * x` differs from 0, whole and -whole.
enough_decimals <- function(x, digits, whole = 1) {
  gap <- min(abs(x), 1 - abs(x))
  if (is.na(gap) || gap <= share_rounding) {
    return(digits)
  }
  looks_whole <- \(digits) {
    as.numeric(with_decimals(whole * abs(x), digits)) %in% c(0, whole)
  }
  while (digits < most_decimals && looks_whole(digits)) {
    digits <- digits + 1L
  }
  digits
}

# All numbers in printed objects, plots and files have a point, also with options(OutDec = ","): so
# have the texts that Python writes. Within the calling function, R writes numbers in this way.
# Methods of print() and format() call this function, see zzz.R.
local_point <- function(frame = parent.frame()) {
  rlang::local_options(OutDec = ".", .frame = frame)
}

# Returns labels of the ticks of an axis, for ggplot2, which calls the function when a plot is
# printed.
tick_labels <- function(x) {
  ifelse(is.na(x), NA, format(x, trim = TRUE, justify = "left", decimal.mark = "."))
}

# Returns numbers with a point, also with options(OutDec = ","); never -0.00.
with_decimals <- function(x, digits) {
  text <- formatC(x, digits = digits, format = "f", decimal.mark = ".")
  sub("^-(0[.]?0*)$", "\\1", text)
}

# Changes methods when the package is built, and registers methods when it is loaded. This file is
# the last one, so that all methods exist.

# Makes a method of print() or format() show numbers with a point, see local_point().
with_point <- function(method) {
  body(method) <- rlang::expr({
    local_point()
    !!body(method)
  })
  method
}

# Makes a method refuse arguments in `...`, other than `known`, that it does not use.
with_empty_dots <- function(method, known) {
  dots <- str2lang("list(...)") # of the method; as code, it would be of this function
  body(method) <- rlang::expr({
    check_dots(!!dots, !!known)
    !!body(method)
  })
  method
}

# Arguments that R itself passes to all methods: data.frame() converts its arguments, and prints and
# summarises its columns.
passed_by_r <- function(name) {
  if (startsWith(name, "as.data.frame.")) {
    c(
      "row.names",
      "optional",
      "stringsAsFactors",
      "make.names",
      "col.names",
      "nm",
      "check.names"
    )
  } else if (name %in% c("format.llamaherd_result", "format.llamaherd_vectors")) {
    names(formals(format.default))
  } else if (name == "summary.llamaherd_result") {
    c("maxsum", "digits", "quantile.type")
  } else {
    character()
  }
}

# Generics whose methods have no use for arguments that they do not name.
closed_generics <- c(
  "print",
  "format",
  "summary",
  "plot",
  "close",
  "as.data.frame",
  "t",
  "coef",
  "confint",
  "vcov",
  "nobs",
  "tidy",
  "glance"
)

local({
  package <- topenv()
  generics <- paste(closed_generics, collapse = "|")
  methods <- grep(
    sprintf("^(%s)[.](summary[.])?llamaherd_", generics),
    ls(package),
    value = TRUE
  )
  for (name in methods) {
    method <- get(name, package)
    if ("..." %in% names(formals(method)) && !"..." %in% all.names(body(method))) {
      method <- with_empty_dots(method, passed_by_r(name))
    }
    if (grepl("^(format|print)[.]", name)) {
      method <- with_point(method)
    }
    assign(name, method, package)
  }
})

# S4 generics, such as dbWriteTable() of DBI and the conversion to JSON of jsonlite, find methods
# for data frames, texts and lists only if they know the classes.
s4_classes <- c(
  lapply(
    c(
      "llamaherd_agreement",
      "llamaherd_coded",
      "llamaherd_coverage",
      "llamaherd_journal",
      "llamaherd_optimize",
      "llamaherd_pair_agreement",
      "llamaherd_span_validation",
      "llamaherd_spans",
      "llamaherd_table"
    ),
    c,
    "data.frame"
  ),
  lapply(
    c(
      "llamaherd_choice",
      "llamaherd_codebook",
      "llamaherd_codebooks",
      "llamaherd_dawid_skene",
      "llamaherd_estimates",
      "llamaherd_evaluation",
      "llamaherd_gold",
      "llamaherd_gold_size",
      "llamaherd_pairs",
      "llamaherd_reproduction",
      "llamaherd_robustness",
      "llamaherd_stats",
      "llamaherd_validation"
    ),
    c,
    "list"
  ),
  list(c("llamaherd_result", "character"))
)

.onLoad <- function(libname, pkgname) {
  register_row_verbs()
  for (classes in s4_classes) {
    methods::setOldClass(classes, where = topenv())
  }
}

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
  dots <- str2lang("rlang::enquos(...)") # of the method; as code, it would be of this function
  body(method) <- rlang::expr({
    check_dots(!!dots, !!known)
    !!body(method)
  })
  method
}

# Arguments that R itself passes to all methods: data.frame() converts its arguments, and prints and
# summarises its columns. vcov(complete = FALSE) leaves out coefficients that are NA.
passed_by_r <- function(name) {
  if (startsWith(name, "as.data.frame.")) {
    frame <- "row.names optional stringsAsFactors make.names col.names nm check.names"
    strsplit(frame, " ")[[1]]
  } else if (name %in% c("format.llamaherd_result", "format.llamaherd_vectors")) {
    names(formals(format.default))
  } else if (name %in% c("coef.llamaherd_estimates", "vcov.llamaherd_estimates")) {
    "complete"
  } else if (name == "summary.llamaherd_result") {
    c("maxsum", "digits", "quantile.type")
  } else {
    character()
  }
}


local({
  package <- topenv()
  generics <- "print|format|summary|plot|close|as[.]data[.]frame|t"
  generics <- paste0(generics, "|coef|confint|vcov|nobs|tidy|glance")
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
s4_classes <- local({
  of <- \(names, base) lapply(paste0("llamaherd_", strsplit(names, "\\s+")[[1]]), c, base)
  tables <- "agreement coded coverage journal optimize pair_agreement span_validation
    spans table"
  objects <- "choice codebook codebooks dawid_skene estimates evaluation gold gold_size
    pairs reproduction robustness stats validation"
  c(of(tables, "data.frame"), of(objects, "list"), of("result", "character"))
})

.onLoad <- function(libname, pkgname) {
  register_row_verbs()
  for (classes in s4_classes) {
    methods::setOldClass(classes, where = topenv())
  }
}

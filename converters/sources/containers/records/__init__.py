"""Files of records that others wrote: TFRecord, ArrayRecord, MDS; and what is in a record that nobody described."""

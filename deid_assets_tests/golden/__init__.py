"""What releases consist of, as digests: changes of the inside that change none of them have changed nothing for anybody."""
